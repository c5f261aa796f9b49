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

// Complaint is what a kind has against a value.
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

// Type knows one type of value and where to put it.
type Type struct {
	Admits string // what may be written, for documentation and messages
	Set    func(v Value) *Complaint
	Get    func() string // the right-hand side that the value was or could be written as; "" if only leaving the key out says it
	Reveal func() string // get with the secrets that get hides; nil where there are none
}

// Must says what would have been right.
func (k Type) Must(v Value, fix string) *Complaint {
	return &Complaint{Message: v.Shown() + " is not " + k.Admits, Fix: fix}
}
