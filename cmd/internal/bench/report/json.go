package report

import (
	"encoding/json"
	"io"

	"github.com/pgweir/pgweir/cmd/internal/bench"
)

// Document is what WriteJSON writes.
type Document struct {
	Title   string        `json:"title"`
	Load    []string      `json:"load"` // in words
	Results []Summary     `json:"results"`
	Checks  []bench.Check `json:"checks,omitzero"`

	load *bench.Load // of the first
}

// NewDocument puts the figures of results together. The load is that of the first.
func NewDocument(title string, results []*bench.Result, checks []bench.Check) Document {
	d := Document{Title: title, Checks: checks}
	for i, r := range results {
		if i == 0 {
			d.load, d.Load = &r.Load, describe(&r.Load)
		}
		d.Results = append(d.Results, Summarize(r))
	}
	return d
}

// WriteJSON writes the document, indented.
func (d Document) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(d)
}
