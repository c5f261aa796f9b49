package report

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strings"
)

// plot is a picture over the time of a run.
type plot struct {
	title string
	note  string // below the title
	log   bool   // the axis upwards is logarithmic: latencies
	end   float64
	top   float64 // of the axis; 0: from the values
	marks []mark
	lines []line
	areas []area  // stacked, the first at the bottom
	hints []hints // what a place of the picture says when it is pointed at
}

// mark is the begin of a phase.
type mark struct {
	at   float64
	name string
}

// line is a curve; NaN is where it has no value.
type line struct {
	class  string // of its style
	name   string
	points [][2]float64
	steps  bool
}

// area is a layer, with a value for each stretch.
type area struct {
	class  string
	values []float64
}

// hints is a text for a stretch of time.
type hints struct {
	from, to float64
	text     string
}

// The picture, in units of its view box.
const (
	plotWidth  = 400.0
	plotHeight = 200.0
	left       = 46.0
	right      = 14.0
	above      = 20.0
	below      = 24.0
)

// frame translates values into places.
type frame struct {
	end, low, top float64
	log           bool
}

func (f frame) x(v float64) float64 { return left + v/f.end*(plotWidth-left-right) }

func (f frame) y(v float64) float64 {
	part := 0.0
	switch {
	case !f.log:
		part = v / f.top
	case v > 0:
		part = math.Log(v/f.low) / math.Log(f.top/f.low)
	}
	return plotHeight - below - min(max(part, 0), 1)*(plotHeight-above-below)
}

// svg draws the plot.
func (p *plot) svg() template.HTML {
	f := p.frame()
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %g %g" role="img" aria-label="%s">`, plotWidth, plotHeight, html.EscapeString(p.title))
	p.axes(&b, f)
	p.drawAreas(&b, f)
	for _, l := range p.lines {
		if d := l.path(f); d != "" {
			fmt.Fprintf(&b, `<path class="line %s" d="%s"><title>%s</title></path>`, l.class, d, html.EscapeString(l.name))
		}
	}
	for _, h := range p.hints {
		fmt.Fprintf(&b, `<rect class="hint" x="%.1f" y="%g" width="%.1f" height="%g"><title>%s</title></rect>`,
			f.x(h.from), above, f.x(h.to)-f.x(h.from), plotHeight-above-below, html.EscapeString(h.text))
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) // all that comes from outside is escaped
}

// frame finds the axes.
func (p *plot) frame() frame {
	f := frame{end: max(p.end, 1e-3), low: math.Inf(1), top: p.top, log: p.log}
	see := func(v float64) {
		if math.IsNaN(v) || p.log && v <= 0 {
			return
		}
		f.low = min(f.low, v)
		if p.top == 0 {
			f.top = max(f.top, v)
		}
	}
	for _, l := range p.lines {
		for _, at := range l.points {
			see(at[1])
		}
	}
	for _, v := range p.stacked() {
		see(v)
	}
	if !p.log {
		if p.top == 0 {
			f.top *= 1.05
		}
		f.top = max(f.top, 1)
		return f
	}
	if math.IsInf(f.low, 1) {
		f.low, f.top = 1, 10
	}
	f.low = math.Pow(10, math.Floor(math.Log10(f.low)+1e-9))
	f.top = math.Pow(10, math.Ceil(math.Log10(max(f.top, f.low*10))-1e-9))
	return f
}

// stacked are the sums of all areas.
func (p *plot) stacked() []float64 {
	var sums []float64
	for _, a := range p.areas {
		for i, v := range a.values {
			if i == len(sums) {
				sums = append(sums, 0)
			}
			sums[i] += v
		}
	}
	return sums
}

// axes draws the grid, its labels and the phases.
func (p *plot) axes(b *strings.Builder, f frame) {
	for _, v := range f.levels() {
		fmt.Fprintf(b, `<path class="grid" d="M%g %.1fH%g"/><text x="%g" y="%.1f" class="side">%s</text>`,
			left, f.y(v), plotWidth-right, left-6, f.y(v)+3.5, f.label(v))
	}
	step := niceStep(f.end, 5)
	for v := 0.0; v <= f.end*1.0001; v += step {
		fmt.Fprintf(b, `<text x="%.1f" y="%g" class="foot">%g s</text>`, min(f.x(v), plotWidth-16), plotHeight-7, round(v))
	}
	for i, m := range p.marks {
		if m.at > f.end {
			break
		}
		if i > 0 {
			fmt.Fprintf(b, `<path class="phase" d="M%.1f %gV%g"/>`, f.x(m.at), above-12, plotHeight-below)
		}
		fmt.Fprintf(b, `<text x="%.1f" y="%g" class="phase">%s</text>`, f.x(m.at)+3, above-6, html.EscapeString(m.name))
	}
}

// levels are the values that have a line of the grid.
func (f frame) levels() []float64 {
	var list []float64
	if f.log {
		for v := f.low; v <= f.top*1.0001; v *= 10 {
			list = append(list, v)
			if f.top <= f.low*10.001 && v < f.top/2 { // a single power of ten
				list = append(list, 2*v, 5*v)
			}
		}
		return list
	}
	step := niceStep(f.top, 4)
	for v := 0.0; v <= f.top*1.0001; v += step {
		list = append(list, v)
	}
	return list
}

// label is a value of the axis upwards; latencies are in milliseconds.
func (f frame) label(v float64) string {
	switch {
	case f.log && v >= 1000:
		return fmt.Sprintf("%g s", round(v/1000))
	case f.log:
		return fmt.Sprintf("%g ms", round(v))
	case v >= 10_000:
		return fmt.Sprintf("%gk", round(v/1000))
	default:
		return fmt.Sprintf("%g", round(v))
	}
}

// round removes what binary fractions leave.
func round(v float64) float64 { return math.Round(v*1e6) / 1e6 }

// niceStep divides a length into about n round steps.
func niceStep(length float64, n int) float64 {
	raw := length / float64(n)
	size := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, factor := range []float64{1, 2, 5} {
		if raw <= size*factor*1.0001 {
			return size * factor
		}
	}
	return size * 10
}

// path is the curve: a gap where there is no value, and a dash where a value stands alone.
func (l *line) path(f frame) string {
	var b strings.Builder
	pen := false
	for i, at := range l.points {
		if math.IsNaN(at[1]) || f.log && at[1] <= 0 {
			pen = false
			continue
		}
		x, y := f.x(at[0]), f.y(at[1])
		switch {
		case !pen:
			fmt.Fprintf(&b, "M%.1f %.1f", x, y)
			if alone := i+1 == len(l.points) || math.IsNaN(l.points[i+1][1]); alone {
				b.WriteString("h2")
			}
		case l.steps:
			fmt.Fprintf(&b, "H%.1fV%.1f", x, y)
		default:
			fmt.Fprintf(&b, "L%.1f %.1f", x, y)
		}
		pen = true
	}
	return b.String()
}

// drawAreas stacks the areas in steps as wide as their stretches.
func (p *plot) drawAreas(b *strings.Builder, f frame) {
	if len(p.areas) == 0 {
		return
	}
	floor := make([]float64, len(p.areas[0].values))
	for _, a := range p.areas {
		var over, under strings.Builder
		some := false
		for i, v := range a.values {
			some = some || v > 0
			from, to := f.x(p.hints[i].from), f.x(p.hints[i].to)
			verb := "L"
			if i == 0 {
				verb = "M"
			}
			fmt.Fprintf(&over, "%s%.1f %.1fH%.1f", verb, from, f.y(floor[i]+v), to)
		}
		for i := len(a.values) - 1; i >= 0; i-- {
			fmt.Fprintf(&under, "L%.1f %.1fH%.1f", f.x(p.hints[i].to), f.y(floor[i]), f.x(p.hints[i].from))
			floor[i] += a.values[i]
		}
		if some {
			fmt.Fprintf(b, `<path class="area %s" d="%s%sZ"/>`, a.class, over.String(), under.String())
		}
	}
}
