package login

import "log/slog"

// BookFile is a Book that is kept in a file, which is read again when it has changed. It is
// safe for use by several goroutines.
type BookFile struct {
	name string
	file watched[Book]
}

// OpenBook reads the book of a file. read is called again by Current when the file has
// changed; if it fails then, the book stays as it is. A book of no file, with the name "", is
// read once.
func OpenBook(name string, read func() (*Book, error)) (*BookFile, error) {
	f := &BookFile{name: name}
	if err := f.file.open(read, name); err != nil {
		return nil, err
	}
	return f, nil
}

// Attach says where to log that the file was read again, or why it can't be used. It is
// called before the book is used.
func (f *BookFile) Attach(log *slog.Logger) {
	f.file.mu.Lock()
	defer f.file.mu.Unlock()
	f.file.changed = func(b *Book, err error) {
		if err != nil {
			log.Error("changed auth_file can't be used, the one before stays", "error", err,
				"what_to_do", "correct it; it is tried again without a reload")
			return
		}
		log.Info("auth_file read again", "file", f.name, "roles", b.Len())
	}
}

// Known returns the book as it was read last; nil of a nil file. It does not block.
func (f *BookFile) Known() *Book {
	if f == nil {
		return nil
	}
	return f.file.value.Load()
}

// Current returns the book as the file has it: it is looked at if that was not done within
// the last second. One goroutine at a time looks; the others take what there is. It is nil of
// a nil file.
func (f *BookFile) Current() *Book {
	if f == nil {
		return nil
	}
	return f.file.current()
}
