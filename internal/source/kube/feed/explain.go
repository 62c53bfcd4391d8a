package feed

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// trouble is an error in words for operators, with what caused it.
type trouble struct {
	text  string
	cause error
}

func (t *trouble) Error() string { return t.text }
func (t *trouble) Unwrap() error { return t.cause }

// Explain says what an error of the API server means for somebody who was doing
// something; what it wraps stays there for errors.As.
func Explain(err error, doing string) error {
	var text string
	switch {
	case apierrors.IsForbidden(err):
		text = fmt.Sprintf("%s: the cluster forbids it; give pawl's user the right by a Role or ClusterRole: %v", doing, err)
	case apierrors.IsUnauthorized(err):
		text = fmt.Sprintf("%s: the cluster does not accept the credentials: %v", doing, err)
	case apierrors.IsNotFound(err):
		text = fmt.Sprintf("%s: the cluster has no such kind at the moment: %v", doing, err)
	case errors.As(err, new(apierrors.APIStatus)):
		text = fmt.Sprintf("%s: the cluster answered: %v", doing, err)
	default:
		text = fmt.Sprintf("%s: the cluster does not answer: %v", doing, err)
	}
	return &trouble{text, err}
}
