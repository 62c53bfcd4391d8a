package relay

import (
	"io"
	"sync"
)

// maxSpareBytes is the largest request whose memory is used again.
const maxSpareBytes = 4 << 20

// spareRequests is the memory of requests that were answered: a batch has megabytes,
// which the collector would otherwise clear and take back for each.
var spareRequests sync.Pool // of *[]byte

// Answered reads a request to its end and returns its answer. length is how long it
// says to be, below 0 where it does not; where that is at most most, it is read at once.
// The request's memory is used again: answer keeps nothing of it. Receive, Look and
// Compare keep nothing.
//
// # Errors
//
// Those of body, io.ErrUnexpectedEOF where it is shorter than it says; those of answer.
func Answered(body io.Reader, length, most int64, answer func(request []byte) ([]byte, error)) ([]byte, error) {
	if length < 0 || length > most {
		request, err := io.ReadAll(body)
		if err != nil {
			return nil, err
		}
		return answer(request)
	}
	spare, _ := spareRequests.Get().(*[]byte)
	if spare == nil {
		spare = new([]byte)
	}
	if int64(cap(*spare)) < length {
		*spare = make([]byte, length)
	}
	if cap(*spare) <= maxSpareBytes {
		defer spareRequests.Put(spare)
	}
	request := (*spare)[:length]
	if _, err := io.ReadFull(body, request); err != nil {
		return nil, err
	}
	return answer(request)
}
