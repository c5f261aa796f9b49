package report

import (
	"fmt"
	"io"

	"github.com/pgweir/pgweir/cmd/internal/bench"
)

// Screen writes lines, the last of which may be a live one. Who closes the output early
// does not want the rest. It is used by one goroutine at a time.
type Screen struct {
	Out      io.Writer
	Rewrites bool // live lines replace each other; else there are none
	Colors   bool
	Unicode  bool // more than ASCII can be shown

	pending bool // the cursor is in a live line
}

// The live line is cut at the edge of the terminal rather than wrapped: only one row can be
// rewritten.
const (
	rewrite = "\r\x1b[K"
	wrapOff = "\x1b[?7l"
	wrapOn  = "\x1b[?7h"
)

// Color is the number of a terminal's color or style.
type Color int

// The colors and styles in use.
const (
	Bold   Color = 1
	Faint  Color = 2
	Red    Color = 31
	Green  Color = 32
	Yellow Color = 33
)

// ColorOf is an outcome's color.
func ColorOf(o bench.Outcome) Color {
	switch o {
	case bench.Served:
		return Green
	case bench.Refused, bench.Stopped:
		return Yellow
	default:
		return Red
	}
}

// Sign stands for an outcome in a bar. The signs differ also without their colors.
func (s *Screen) Sign(o bench.Outcome) string {
	ascii, unicode := "x", "░"
	switch o {
	case bench.Served:
		ascii, unicode = "#", "█"
	case bench.Refused, bench.Stopped:
		ascii, unicode = ".", "·"
	}
	if s.Unicode {
		return unicode
	}
	return ascii
}

// Paint colors a text, if the terminal has colors.
func (s *Screen) Paint(c Color, text string) string {
	if !s.Colors || text == "" {
		return text
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", c, text)
}

// Dim makes a text faint.
func (s *Screen) Dim(text string) string { return s.Paint(Faint, text) }

// Bold makes a text bold.
func (s *Screen) Bold(text string) string { return s.Paint(Bold, text) }

// Say writes a line, or several, for good.
func (s *Screen) Say(format string, args ...any) {
	if s.pending {
		s.print("\n")
		s.pending = false
	}
	s.print(fmt.Sprintf(format, args...) + "\n")
}

// Live shows how things are now, where that can be rewritten.
func (s *Screen) Live(line string) {
	if s.Rewrites {
		s.print(rewrite + wrapOff + line + wrapOn)
		s.pending = true
	}
}

// Keep writes a line for good in the place of the live one.
func (s *Screen) Keep(line string) {
	s.Erase()
	s.print(line + "\n")
}

// Erase removes the live line.
func (s *Screen) Erase() {
	if s.pending {
		s.print(rewrite)
		s.pending = false
	}
}

func (s *Screen) print(text string) { _, _ = io.WriteString(s.Out, text) }
