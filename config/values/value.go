package values

import (
	"strconv"
	"strings"

	"github.com/pgweir/pgweir/config/document"
)

// Value is what a key is given: a node whose ${NAME} has been replaced.
type Value struct {
	document.Node
	Env string // the variable that the text comes from, or ""
	Dir string // relative paths start here
}

// Shown is the value for a message. What comes from the environment is not repeated.
func (v Value) Shown() string {
	switch {
	case v.Env != "":
		return "the value of ${" + v.Env + "}"
	case v.Kind == document.List:
		return "the list"
	case v.Kind == document.Table:
		return "the table"
	}
	text := v.Text
	if len(text) > 40 {
		text = strings.ToValidUTF8(text[:40], "") + "..."
	}
	if v.Kind == document.Text {
		return strconv.Quote(text)
	}
	return text
}

// Complaint is what a [Type] has against a value.
type Complaint struct {
	Message string
	Fix     string        // the right-hand side to write instead, or ""
	Advice  string        // or else a sentence
	At      document.Span // within the text of the value; zero: all of it
	Element int           // of a list or table, counted from 1; 0: the value itself
	OnName  bool          // of a table: it is about the element's name

	Also *Complaint // the next one about the same value
}

// And puts more behind c. Either may be nil.
func (c *Complaint) And(more *Complaint) *Complaint {
	if c == nil {
		return more
	}
	c.Also = c.Also.And(more)
	return c
}

// Type knows one sort of value, its bounds, and where to put it.
type Type struct {
	Admits string                   // what may be written, for documentation and messages
	Set    func(v Value) *Complaint // stores a value that nothing is wrong with
	Get    func() string            // the right-hand side that the value was or could be written as; "" if only leaving the key out says it
	Reveal func() string            // Get with the secrets that it hides; nil where there are none
}

// Must says what would have been right.
func (t Type) Must(v Value, fix string) *Complaint {
	return &Complaint{Message: v.Shown() + " is not " + t.Admits, Fix: fix}
}
