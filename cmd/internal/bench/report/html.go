package report

import (
	_ "embed"
	"html/template"
	"io"

	"github.com/pgweir/pgweir/cmd/internal/bench"
)

//go:embed page.html
var pageText string

// page is what the template shows.
type page struct {
	Document
	Outcomes []outcome
	Series   []series
	Together []panel
	Alone    []alone
}

// rows are the groups of a target in a table.
type rows struct {
	Target string
	Groups []Group
}

// outcome is an entry of the legend.
type outcome struct{ Class, Name string }

// series is a target of the legend.
type series struct {
	Class, Name string
}

// panel is a plot with its words.
type panel struct {
	Title, Note string
	SVG         template.HTML
}

// alone is all about one target.
type alone struct {
	Summary
	Plots []panel
}

// WriteHTML writes the document as a page that needs nothing else: no script, no file, no
// network.
func (d Document) WriteHTML(w io.Writer) error {
	t, err := template.New("page").Funcs(template.FuncMap{
		"number": number, "pair": pair, "latency": latency, "cause": cause,
		"per":    func(f Figures, n int) string { return number(float64(n) * f.perSecond) },
		"others": func(f Figures) int { return f.Failed + f.Unsent },
		"rows":   func(target string, groups []Group) rows { return rows{target, few(groups)} },
		"window": func(s Summary, i int) []Group {
			if i < len(s.Windows) {
				return s.Windows[i].Groups
			}
			return nil
		},
	}).Parse(pageText)
	if err != nil {
		return err
	}
	return t.Execute(w, d.page())
}

// page lays the document out.
func (d Document) page() page {
	p := page{Document: d}
	for o := range bench.Outcomes {
		p.Outcomes = append(p.Outcomes, outcome{outcomeClass(o), o.String()})
	}
	if len(d.Results) == 0 {
		return p
	}
	w := newWall(d.Results, d.load)
	trimmed := make([]Summary, len(d.Results))
	for i, s := range d.Results {
		trimmed[i] = w.trim(s)
		p.Series = append(p.Series, series{seriesClass(i), s.Target})
	}
	if len(d.Results) > 1 {
		for _, one := range w.together(trimmed) {
			p.Together = append(p.Together, panel{one.title, one.note, one.svg()})
		}
	}
	for i := range trimmed {
		a := alone{Summary: d.Results[i]}
		for _, one := range w.alone(&trimmed[i]) {
			a.Plots = append(a.Plots, panel{one.title, one.note, one.svg()})
		}
		p.Alone = append(p.Alone, a)
	}
	return p
}

// few leaves out the tenants that are too many for a table.
func few(groups []Group) []Group {
	var list []Group
	tenants := 0
	for _, g := range groups {
		if g.By == "tenant" {
			if tenants++; tenants > mostRows {
				continue
			}
		}
		list = append(list, g)
	}
	return list
}
