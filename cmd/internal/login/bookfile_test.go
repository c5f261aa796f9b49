package login

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A book is read again when its file has changed, at most once in a second; one that can't be
// read stays as it was, and is tried again.
func TestBookFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "userlist.txt")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	reads, broken := 0, false
	read := func() (*Book, error) {
		reads++
		if broken {
			return nil, errors.New("the disk is gone")
		}
		text, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer func() { _ = text.Close() }()
		list, problems := ParseAuthFile(text)
		if len(problems) > 0 {
			return nil, errors.New(problems[0].String())
		}
		return NewBook(list), nil
	}
	if _, err := OpenBook(file, read); err == nil {
		t.Error("a file that is not there was opened")
	}
	write(`"app" "one"`)
	reads = 0
	f, err := OpenBook(file, read)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	f.Attach(slog.New(slog.NewTextHandler(&log, nil)))
	now := time.Now()
	f.file.now = func() time.Time { return now }
	f.file.looked = now
	password := func() string {
		s, _ := f.Current().Lookup("app")
		return s.Plain
	}
	step := func(what, want string, wantReads int) {
		t.Helper()
		if got := password(); got != want || reads != wantReads {
			t.Errorf("%s: %q after %d reads, want %q after %d", what, got, reads, want, wantReads)
		}
	}
	write(`"app" "two"`)
	step("within the second", "one", 1)
	now = now.Add(lookEvery)
	step("a second later", "two", 2)
	now = now.Add(lookEvery)
	step("unchanged", "two", 2)
	write(`"app" "three`)
	for i := range 3 {
		now = now.Add(lookEvery)
		step("half a line", "two", 3+i)
	}
	if n := strings.Count(log.String(), "can't be used"); n != 1 || strings.Contains(log.String(), "three") {
		t.Errorf("%d complaints: %s", n, &log)
	}
	write(`"app" "three"`)
	broken = true
	now = now.Add(lookEvery)
	step("the disk fails", "two", 6)
	broken = false
	now = now.Add(lookEvery)
	step("it works again", "three", 7)
	if f.Known() != f.Current() {
		t.Error("two books")
	}
	var none *BookFile
	if none.Known() != nil || none.Current() != nil {
		t.Error("a book of nothing")
	}
}
