package login

import (
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// lookEvery is how often files are looked at that may be replaced without a reload.
const lookEvery = time.Second

// stamp tells two states of a file apart.
type stamp struct {
	inode, size, modified int64
	missing               bool
}

// stampOf looks at a file; "" is none.
func stampOf(name string) (s stamp) {
	if name == "" {
		return s
	}
	info, err := os.Stat(name)
	if err != nil {
		return stamp{missing: true}
	}
	s.size, s.modified = info.Size(), info.ModTime().UnixNano()
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		s.inode = int64(sys.Ino)
	}
	return s
}

// watched is what stands in files that may be replaced without a reload: it is read again when
// they have changed. It is safe for use by several goroutines.
type watched[T any] struct {
	names []string // "" is no file
	read  func() (*T, error)
	now   func() time.Time

	// changed is told, one call at a time, what became of files that have changed: they are in
	// use, or err says why not, and what was there before stays. That one is told once.
	changed func(v *T, err error)

	value atomic.Pointer[T]

	mu     sync.Mutex
	looked time.Time
	seen   []stamp // of the files that were read last
	failed error   // nil: they are in use
}

// open reads the files for the first time.
func (w *watched[T]) open(read func() (*T, error), names ...string) error {
	w.names, w.read, w.now = names, read, time.Now
	w.looked, w.seen = w.now(), w.stamps() // before they are read: what changes meanwhile is seen next time
	v, err := read()
	if err != nil {
		return err
	}
	w.value.Store(v)
	return nil
}

func (w *watched[T]) stamps() []stamp {
	s := make([]stamp, len(w.names))
	for i, name := range w.names {
		s[i] = stampOf(name)
	}
	return s
}

// current is what is in use, after a look at the files if the last one was long ago. One
// goroutine at a time looks; the others take what there is.
func (w *watched[T]) current() *T {
	if w.mu.TryLock() {
		defer w.mu.Unlock()
		if now := w.now(); now.Sub(w.looked) >= lookEvery {
			w.looked = now
			w.lookLocked()
		}
	}
	return w.value.Load()
}

// lookLocked takes changed files into use. Files that are just being written may make no
// sense yet, so those that failed are tried again each time.
func (w *watched[T]) lookLocked() {
	s := w.stamps()
	same := slices.Equal(s, w.seen)
	if same && w.failed == nil {
		return
	}
	w.seen = s
	v, err := w.read()
	if w.failed = err; err == nil {
		w.value.Store(v)
	}
	if w.changed != nil && (err == nil || !same) {
		w.changed(v, err)
	}
}

// stale is why the files as they were seen last are not in use; nil: they are.
func (w *watched[T]) stale() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed
}
