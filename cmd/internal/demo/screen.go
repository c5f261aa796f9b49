package demo

import (
	"fmt"
	"io"
	"time"
)

// screen writes lines, the last of which may be a live one. Who closes the output early
// does not want the rest.
type screen struct {
	out      io.Writer
	rewrites bool // live lines replace each other
	pending  bool // the cursor is in a live line
}

// The live line is cut at the edge of the terminal rather than wrapped: only one row can be
// rewritten.
const (
	rewrite = "\r\x1b[K"
	wrapOff = "\x1b[?7l"
	wrapOn  = "\x1b[?7h"
)

// interval is how often a live line is worth showing.
func (s *screen) interval() time.Duration {
	if s.rewrites {
		return 500 * time.Millisecond
	}
	return time.Second
}

// say writes a line, or several, for good.
func (s *screen) say(format string, args ...any) {
	if s.pending {
		s.print("\n")
		s.pending = false
	}
	s.print(fmt.Sprintf(format, args...) + "\n")
}

// live shows how things are now.
func (s *screen) live(line string) {
	if !s.rewrites {
		s.print(line + "\n")
		return
	}
	s.print(rewrite + wrapOff + line + wrapOn)
	s.pending = true
}

// settle shows how things ended, in the place of the live line.
func (s *screen) settle(line string) {
	if s.pending {
		s.print(rewrite)
		s.pending = false
	}
	s.print(line + "\n")
}

func (s *screen) print(text string) { _, _ = io.WriteString(s.out, text) }
