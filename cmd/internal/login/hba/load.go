package hba

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Bounds of what is read, all files together. Whoever may write the files can stop pgweir
// anyway; these are against mistakes.
const (
	maxDepth  = 10 // files within files, as in Postgres
	maxFiles  = 1000
	maxBytes  = 4 << 20
	maxTokens = 200_000
	maxLines  = 20_000 // rules, or lines of maps
)

// disk is where files come from.
type disk interface {
	// read returns a file's text, of which it reads no more than limit bytes and one.
	read(path string, limit int) (string, error)
	// list returns the names in a directory.
	list(path string) ([]string, error)
}

// local is the disk of this machine.
type local struct{}

func (local) read(path string, limit int) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // only read
	b, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	return string(b), err
}

func (local) list(path string) ([]string, error) {
	entries, err := os.ReadDir(path)
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		if !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// line is one with something on it: fields of words.
type line struct {
	spot
	fields [][]token
}

// loader reads a file with all that it includes.
type loader struct {
	disk                 disk
	files, bytes, tokens int
	lines                []line
	problems             []Problem
}

// load reads a file.
func load(d disk, path string) *loader {
	l := &loader{disk: d}
	if p := l.file(nowhere(path), path, 0); p != nil {
		l.problems = append(l.problems, *p)
	}
	return l
}

// tooMuch ends the reading.
const tooMuch = "too much to read: more than %d %s"

// text reads a file that is named at a place.
func (l *loader) text(at spot, path string, depth int) (string, *Problem) {
	if depth > maxDepth {
		return "", at.problem("files within files, more than %d deep", maxDepth)
	}
	if l.files++; l.files > maxFiles {
		return "", at.problem(tooMuch, maxFiles, "files")
	}
	text, err := l.disk.read(path, maxBytes-l.bytes)
	if err != nil {
		return "", at.problem("%s", reason(err, at.file))
	}
	if l.bytes += len(text); l.bytes > maxBytes {
		return "", at.problem(tooMuch, maxBytes, "bytes")
	}
	return text, nil
}

// reason is an error with the path that it names, unless that is the file that it is told of.
func reason(err error, file string) string {
	p, ok := errors.AsType[*fs.PathError](err)
	switch {
	case ok && p.Path == file:
		return p.Err.Error()
	case ok:
		return fmt.Sprintf("%s: %v", p.Path, p.Err)
	}
	return err.Error()
}

// file reads the lines of a file. The problem is that it can't be read; what is wrong in it
// is noted.
func (l *loader) file(at spot, path string, depth int) *Problem {
	text, bad := l.text(at, path, depth)
	if bad != nil {
		return bad
	}
	for _, raw := range logicalLines(path, text) {
		ln, bad := l.fields(&raw, depth)
		if bad == nil && len(ln.fields) > 0 {
			bad = l.take(ln, depth)
		}
		if bad != nil {
			l.problems = append(l.problems, *bad)
		}
		if len(l.lines) > maxLines || l.tokens > maxTokens {
			return at.problem(tooMuch, maxLines, "lines or as many words that they could have")
		}
	}
	return nil
}

// fields takes a line apart.
func (l *loader) fields(raw *logical, depth int) (ln line, bad *Problem) {
	s := scanner{logical: raw}
	for s.pos < len(raw.text) {
		var field []token
		for more := true; more; {
			t, comma, ok, bad := s.token()
			if bad != nil {
				return ln, bad
			}
			if !ok {
				break
			}
			if field, bad = l.expand(field, t, depth); bad != nil {
				return ln, bad
			}
			more = comma
		}
		if len(field) > 0 {
			ln.fields = append(ln.fields, field)
		}
	}
	if len(ln.fields) > 0 {
		ln.spot = ln.fields[0][0].spot
	}
	return ln, nil
}

// expand appends a word, or in the place of @file all words of that file.
func (l *loader) expand(field []token, t token, depth int) ([]token, *Problem) {
	if t.quoted || len(t.word) < 2 || t.word[0] != '@' {
		if l.tokens++; l.tokens > maxTokens {
			return nil, t.problem(tooMuch, maxTokens, "words")
		}
		return append(field, t), nil
	}
	path := beside(t.file, t.word[1:])
	text, bad := l.text(t.spot, path, depth+1)
	if bad != nil {
		return nil, bad
	}
	for _, raw := range logicalLines(path, text) {
		ln, bad := l.fields(&raw, depth+1)
		if bad != nil {
			return nil, bad
		}
		for _, f := range ln.fields {
			field = append(field, f...)
		}
	}
	return field, nil
}

// beside is a path that a file names: relative to where it is itself.
func beside(file, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(filepath.Dir(file), path)
}

// take keeps a line, or reads the files in its place.
func (l *loader) take(ln line, depth int) *Problem {
	if len(ln.fields) != 2 {
		l.lines = append(l.lines, ln)
		return nil
	}
	name := ln.fields[1][0]
	path := beside(name.file, name.word)
	switch ln.fields[0][0].word {
	case "include":
		return l.file(name.spot, path, depth+1)
	case "include_if_exists":
		if _, err := l.disk.read(path, 0); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return l.file(name.spot, path, depth+1)
	case "include_dir":
		return l.dir(name.spot, path, depth)
	}
	l.lines = append(l.lines, ln)
	return nil
}

// dir reads the files of a directory whose names end with .conf, in the order of the names.
func (l *loader) dir(at spot, path string, depth int) *Problem {
	names, err := l.disk.list(path)
	if err != nil {
		return at.problem("%s", reason(err, at.file))
	}
	slices.Sort(names)
	for _, name := range names {
		if strings.HasPrefix(name, ".") || !strings.HasSuffix(name, ".conf") {
			continue
		}
		if bad := l.file(at, filepath.Join(path, name), depth+1); bad != nil {
			return bad
		}
	}
	return nil
}
