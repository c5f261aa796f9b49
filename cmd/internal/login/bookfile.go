package login

import (
	"log/slog"
	"os"
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

// BookFile is a Book that is kept in a file, which is read again when it has changed. It is
// safe for use by several goroutines.
type BookFile struct {
	name string
	read func() (*Book, error)
	log  *slog.Logger
	now  func() time.Time

	book atomic.Pointer[Book]

	mu     sync.Mutex
	looked time.Time
	seen   stamp
	failed bool // what is in the file now can't be used
}

// OpenBook reads the book of a file. read is called again by Current when the file has
// changed; if it fails then, the book stays as it is. A book of no file, with the name "", is
// read once.
func OpenBook(name string, read func() (*Book, error)) (*BookFile, error) {
	f := &BookFile{name: name, read: read, log: slog.New(slog.DiscardHandler), now: time.Now}
	f.looked, f.seen = f.now(), stampOf(name) // before it is read: what changes meanwhile is seen next time
	b, err := read()
	if err != nil {
		return nil, err
	}
	f.book.Store(b)
	return f, nil
}

// Attach says where to log that the file was read again, or why it can't be used. It is
// called before the book is used.
func (f *BookFile) Attach(log *slog.Logger) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = log
}

// Known returns the book as it was read last; nil of a nil file. It does not block.
func (f *BookFile) Known() *Book {
	if f == nil {
		return nil
	}
	return f.book.Load()
}

// Current returns the book as the file has it: it is looked at if that was not done within
// the last second. One goroutine at a time looks; the others take what there is. It is nil of
// a nil file.
func (f *BookFile) Current() *Book {
	if f == nil {
		return nil
	}
	if f.name != "" && f.mu.TryLock() {
		defer f.mu.Unlock()
		if now := f.now(); now.Sub(f.looked) >= lookEvery {
			f.looked = now
			f.lookLocked()
		}
	}
	return f.book.Load()
}

// lookLocked takes a changed file into use. One that is just being written may make no sense
// yet, so what has failed is tried again each time; the log has it once.
func (f *BookFile) lookLocked() {
	s := stampOf(f.name)
	if s == f.seen && !f.failed {
		return
	}
	changed := s != f.seen
	f.seen = s
	b, err := f.read()
	if f.failed = err != nil; err == nil {
		f.book.Store(b)
		f.log.Info("auth_file read again", "file", f.name, "roles", b.Len())
	} else if changed {
		f.log.Error("changed auth_file can't be used, the one before stays", "error", err,
			"what_to_do", "correct it; it is tried again without a reload")
	}
}
