package hba

import (
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
)

// files is a disk of texts by their paths.
type files map[string]string

func (f files) read(path string, limit int) (string, error) {
	text, ok := f[path]
	if !ok {
		return "", &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	return text[:min(len(text), limit+1)], nil
}

func (f files) list(path string) (names []string, err error) {
	for _, p := range slices.Sorted(maps.Keys(f)) {
		if filepath.Dir(p) == path {
			names = append(names, filepath.Base(p))
		}
	}
	if names == nil {
		err = &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	return names, err
}
