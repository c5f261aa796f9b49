package hba

import (
	"slices"
	"sync"
)

// Hits counts for how many logins each rule of an hba file was the first. Another file
// begins anew. For any goroutine; the zero value is ready.
type Hits struct {
	mu   sync.Mutex
	file *File
	hits []uint64 // by the rules' numbers, from 1
}

// Add counts one for a rule of f.
func (h *Hits) Add(f *File, r *Rule) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.file != f {
		h.file, h.hits = f, make([]uint64, len(f.Rules)+1)
	}
	h.hits[r.Number]++
}

// Of returns the counts of a file's rules by their numbers, from 1; nil if none was counted.
func (h *Hits) Of(f *File) []uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.file != f {
		return nil
	}
	return slices.Clone(h.hits)
}
