package hba

import (
	"fmt"
	"strconv"
)

// Problem is what is wrong with a file.
type Problem struct {
	File         string
	Line, Column int // from 1; 0: the file as a whole
	Text         string
}

// String returns the problem with its place, as compilers write it.
func (p Problem) String() string {
	if p.Line == 0 {
		return p.File + ": " + p.Text
	}
	return p.File + ":" + strconv.Itoa(p.Line) + ":" + strconv.Itoa(p.Column) + ": " + p.Text
}

// problem is one at this place.
func (s spot) problem(format string, args ...any) *Problem {
	line, column := s.where()
	return &Problem{s.file, line, column, fmt.Sprintf(format, args...)}
}
