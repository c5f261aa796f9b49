package demo

import (
	"fmt"
	"io"
)

// screen writes lines, the last of which may be a live one. Who closes the output early
// does not want the rest.
type screen struct {
	out      io.Writer
	rewrites bool // live lines replace each other; else there are none
	colors   bool
	unicode  bool // more than ASCII can be shown
	pending  bool // the cursor is in a live line
}

// The live line is cut at the edge of the terminal rather than wrapped: only one row can be
// rewritten.
const (
	rewrite = "\r\x1b[K"
	wrapOff = "\x1b[?7l"
	wrapOn  = "\x1b[?7h"
)

// color is the number of a terminal's color or style.
type color int

const (
	bold   color = 1
	faint  color = 2
	red    color = 31
	green  color = 32
	yellow color = 33
)

// colorOf is an outcome's color.
func colorOf(what outcome) color {
	switch what {
	case served:
		return green
	case refused:
		return yellow
	default:
		return red
	}
}

// sign stands for an outcome in a bar. The signs differ also without their colors.
func (s *screen) sign(what outcome) string {
	ascii, unicode := "x", "░"
	switch what {
	case served:
		ascii, unicode = "#", "█"
	case refused:
		ascii, unicode = ".", "·"
	}
	if s.unicode {
		return unicode
	}
	return ascii
}

// paint colors a text, if the terminal has colors.
func (s *screen) paint(c color, text string) string {
	if !s.colors || text == "" {
		return text
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", c, text)
}

func (s *screen) dim(text string) string  { return s.paint(faint, text) }
func (s *screen) bold(text string) string { return s.paint(bold, text) }

// say writes a line, or several, for good.
func (s *screen) say(format string, args ...any) {
	if s.pending {
		s.print("\n")
		s.pending = false
	}
	s.print(fmt.Sprintf(format, args...) + "\n")
}

// live shows how things are now, where that can be rewritten.
func (s *screen) live(line string) {
	if s.rewrites {
		s.print(rewrite + wrapOff + line + wrapOn)
		s.pending = true
	}
}

// keep writes a line for good in the place of the live one.
func (s *screen) keep(line string) {
	s.erase()
	s.print(line + "\n")
}

// erase removes the live line.
func (s *screen) erase() {
	if s.pending {
		s.print(rewrite)
		s.pending = false
	}
}

func (s *screen) print(text string) { _, _ = io.WriteString(s.out, text) }
