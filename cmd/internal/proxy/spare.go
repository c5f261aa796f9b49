package proxy

import (
	"os"
	"sync"
)

// spares are descriptors kept aside for the moment when the process has none
// left: giving one back lets a waiting connection be accepted and told so,
// instead of leaving it, and the accept loop, to spin.
type spares struct {
	mu    sync.Mutex
	files []*os.File
}

// spareDescriptors is how many are kept: one to accept, one for a cancel.
const spareDescriptors = 2

func newSpares() *spares {
	s := &spares{}
	s.fill()
	return s
}

// fill opens what is missing, and reports whether nothing is.
func (s *spares) fill() (full bool) {
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

// lend closes one descriptor; give takes it back.
func (s *spares) lend() bool {
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

func (s *spares) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.files {
		_ = f.Close()
	}
	s.files = nil
}
