package door

import (
	"errors"
	"os"
	"sync"
	"syscall"
)

// Spares are descriptors kept aside for the moment when the process has none
// left: giving one back lets a waiting connection be accepted and told so,
// instead of leaving it, and the accept loop, to spin.
type Spares struct {
	mu    sync.Mutex
	files []*os.File
}

// spareDescriptors is how many are kept: one to accept, one for a cancel.
const spareDescriptors = 2

// NewSpares opens them, as far as there are any left.
func NewSpares() *Spares {
	s := &Spares{}
	s.Fill()
	return s
}

// Fill opens what is missing, and reports whether nothing is.
func (s *Spares) Fill() (full bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.files) < spareDescriptors {
		f, err := os.Open(os.DevNull)
		if err != nil {
			return false // next time
		}
		s.files = append(s.files, f)
	}
	return true
}

// Lend closes one descriptor and reports whether there was one; Fill opens it again.
func (s *Spares) Lend() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.files)
	if n == 0 {
		return false
	}
	_ = s.files[n-1].Close() // /dev/null: nothing can be lost
	s.files = s.files[:n-1]
	return true
}

// Close gives all of them back.
func (s *Spares) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.files {
		_ = f.Close()
	}
	s.files = nil
}

// NoneLeft reports whether an error is that there are no file descriptors.
func NoneLeft(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}
