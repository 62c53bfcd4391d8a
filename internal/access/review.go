package access

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// ReviewClient names some users of a Kubernetes cluster and what they may do.
type ReviewClient struct {
	Name string
	// Users and Groups are as the API server knows them; whoever is or has one of
	// them is meant.
	Users, Groups []string
	Grants        []Grant
	Senders       []string
}

// ReviewOptions say which cluster is asked about tokens.
type ReviewOptions struct {
	// Transport reaches the API server with credentials that may create
	// tokenreviews; BaseURL is its address.
	Transport http.RoundTripper
	BaseURL   string
	// Audiences are those of which a token has to be for one. Defaults to none:
	// tokens have to be for the API server itself.
	Audiences []string
	// Clients are asked in this order.
	Clients []ReviewClient
	// CacheFor is how long an answer counts. Defaults to 10s.
	CacheFor time.Duration
	// Timeout bounds one question. Defaults to 5s.
	Timeout time.Duration
	// Now is the clock. Defaults to time.Now.
	Now func() time.Time
}

// Review tells callers apart by tokens of a Kubernetes cluster, which it asks about
// each (TokenReview). Answers are kept for a short time, by the token's hash, those that let
// nobody in as well. Few questions are under way at once: see places.
//
// It asks about JSON Web Tokens alone, which those of service accounts and of OIDC
// are: other tokens are none of the cluster's business.
type Review struct {
	o       ReviewOptions
	answers answers
	places  *places
}

// NewReview returns a Review.
func NewReview(o ReviewOptions) *Review {
	if o.CacheFor == 0 {
		o.CacheFor = 10 * time.Second
	}
	if o.Timeout == 0 {
		o.Timeout = 5 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Review{o: o, places: newPlaces()}
}

// Authenticate implements Authenticator.
func (v *Review) Authenticate(r *http.Request) (*Identity, error) {
	token, ok := Bearer(r)
	if !ok || !isJWT(token) {
		return nil, nil
	}
	return v.answers.get(sha256.Sum256([]byte(token)), v.o.Now, v.o.CacheFor, func(known bool) (*Identity, error) {
		leave, err := v.places.take(AddressOf(r), known)
		if err != nil {
			return nil, err
		}
		defer leave()
		// Others may wait for the same answer: it does not end with this request.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), v.o.Timeout)
		defer cancel()
		return v.ask(ctx, token)
	})
}

// isJWT reports whether token has the form of a signed JSON Web Token.
func isJWT(token string) bool {
	return strings.HasPrefix(token, "eyJ") && strings.Count(token, ".") == 2
}

// tokenReview is what is said to authentication.k8s.io/v1, of which we need this.
type tokenReview struct {
	APIVersion string       `json:"apiVersion"`
	Kind       string       `json:"kind"`
	Spec       reviewSpec   `json:"spec"`
	Status     reviewStatus `json:"status,omitzero"`
}

type reviewSpec struct {
	Token     string   `json:"token"`
	Audiences []string `json:"audiences,omitempty"`
}

type reviewStatus struct {
	Authenticated bool     `json:"authenticated,omitempty"`
	Audiences     []string `json:"audiences,omitempty"`
	User          struct {
		Username string   `json:"username,omitempty"`
		Groups   []string `json:"groups,omitempty"`
	} `json:"user,omitzero"`
}

// ask is Authenticate without a memory.
func (v *Review) ask(ctx context.Context, token string) (*Identity, error) {
	status, err := v.post(ctx, tokenReview{APIVersion: "authentication.k8s.io/v1", Kind: "TokenReview", Spec: reviewSpec{token, v.o.Audiences}})
	if err != nil {
		return nil, err
	}
	// A server that knows nothing of audiences leaves them out, and has only looked
	// whether the token is for itself.
	forUs := len(v.o.Audiences) == 0 || slices.ContainsFunc(status.Audiences, func(a string) bool { return slices.Contains(v.o.Audiences, a) })
	if !status.Authenticated || !forUs {
		return nil, &Refusal{Detail: "the Kubernetes cluster does not know the token, it has expired, or it is for another audience", Hint: v.hint()}
	}
	return v.identity(status)
}

func (v *Review) hint() string {
	if len(v.o.Audiences) == 0 {
		return "kubectl create token SERVICEACCOUNT makes one"
	}
	return fmt.Sprintf("kubectl create token SERVICEACCOUNT --audience %s makes one", v.o.Audiences[0])
}

func (v *Review) identity(s *reviewStatus) (*Identity, error) {
	for i := range v.o.Clients {
		c := &v.o.Clients[i]
		if slices.Contains(c.Users, s.User.Username) || slices.ContainsFunc(s.User.Groups, func(g string) bool { return slices.Contains(c.Groups, g) }) {
			return &Identity{Name: s.User.Username, Kind: kindKubernetes, Grants: c.Grants, Senders: c.Senders}, nil
		}
	}
	return nil, &Refusal{
		Detail: fmt.Sprintf("the Kubernetes user %q is none of this daemon's clients", s.User.Username),
		Hint:   "add a client with it, or with one of its groups, below server.token_review.clients of the daemon's configuration",
	}
}

const kindKubernetes = "kubernetes"

// reviewAnswerMax bounds what is read of an answer, in bytes.
const reviewAnswerMax = 1 << 20

// post has the API server look at one token. Errors hold nothing of what was sent.
func (v *Review) post(ctx context.Context, question tokenReview) (*reviewStatus, error) {
	body, err := json.Marshal(question)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, v.o.BaseURL+"/apis/authentication.k8s.io/v1/tokenreviews", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	response, err := v.o.Transport.RoundTrip(request)
	if err != nil {
		return nil, fmt.Errorf("the Kubernetes API server that is asked about tokens does not answer: %w", err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, reviewAnswerMax))
	switch {
	case err != nil:
		return nil, fmt.Errorf("the answer of the Kubernetes API server about a token was cut: %w", err)
	case response.StatusCode == http.StatusForbidden, response.StatusCode == http.StatusUnauthorized:
		return nil, fmt.Errorf("the Kubernetes API server does not let pawl ask about tokens (%s); bind pawl's user to the ClusterRole system:auth-delegator", response.Status)
	case response.StatusCode/100 != 2:
		return nil, fmt.Errorf("the Kubernetes API server that is asked about tokens answers %s", response.Status)
	}
	var review tokenReview
	if err := json.Unmarshal(answer, &review); err != nil {
		return nil, errors.New("the answer of the Kubernetes API server about a token is no TokenReview")
	}
	return &review.Status, nil
}
