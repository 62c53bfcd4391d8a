package upstream

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The headers of Standard Webhooks, as net/http spells them.
const (
	headerWebhookID        = "Webhook-Id"
	headerWebhookTimestamp = "Webhook-Timestamp"
	headerWebhookSignature = "Webhook-Signature"
)

// signer signs requests by the Standard Webhooks specification, version v1.
type signer struct {
	keys []*watched[[]byte]
	now  func() time.Time
}

// openSigner follows c's signing secrets; nil: nothing is to be signed.
func openSigner(c Config, o Options) (*signer, error) {
	if len(c.Webhook.Secrets) == 0 {
		return nil, nil
	}
	s := &signer{now: o.Now}
	var errs []error
	for i, secret := range c.Webhook.Secrets {
		key, err := openSecret(o, secret, signingKey)
		if err != nil {
			errs = append(errs, &ConfigError{Upstream: c.Name, Field: fmt.Sprintf("Webhook.Secrets[%d]", i), Problem: "can't be used", Err: err})
			continue
		}
		s.keys = append(s.keys, key)
	}
	return s, errors.Join(errs...)
}

// sign adds the three headers to h. idempotencyKey may be empty.
func (s *signer) sign(h http.Header, idempotencyKey string, body []byte) {
	id := webhookID(idempotencyKey)
	timestamp := strconv.FormatInt(s.now().Unix(), 10)
	var signatures strings.Builder
	for _, key := range s.keys {
		mac := hmac.New(sha256.New, key.get())
		mac.Write([]byte(id + "." + timestamp + "."))
		mac.Write(body)
		if signatures.Len() > 0 {
			signatures.WriteByte(' ')
		}
		signatures.WriteString("v1,")
		signatures.WriteString(base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	h[headerWebhookID] = []string{id}
	h[headerWebhookTimestamp] = []string{timestamp}
	h[headerWebhookSignature] = []string{signatures.String()}
}

// webhookID turns an idempotency key into a message id. What is signed is
// "id.timestamp.body", so that an id with a full stop could be read in two
// ways; such keys, and odd ones, are hashed, which keeps them stable.
func webhookID(idempotencyKey string) string {
	switch {
	case idempotencyKey == "":
		return "msg_" + rand.Text()
	case len(idempotencyKey) <= 128 && strings.IndexFunc(idempotencyKey, oddInID) < 0:
		return idempotencyKey
	}
	sum := sha256.Sum256([]byte(idempotencyKey))
	return "msg_" + base64.RawURLEncoding.EncodeToString(sum[:])
}

func oddInID(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
}
