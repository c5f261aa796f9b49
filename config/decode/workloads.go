package decode

import (
	"slices"
	"strconv"
	"strings"

	"github.com/pgweir/pgweir/config/document"
	"github.com/pgweir/pgweir/config/schema"
	"github.com/pgweir/pgweir/config/values"
)

// countWorkloads makes room for all workloads, those of the file and those that are built
// in, and gives each its label.
func (d *Decoder) countWorkloads(doc document.Document) {
	list := heads(doc, schema.WorkloadKind)
	r := &d.workloads
	for i, s := range list {
		name, _, ok := d.nameOf(s)
		if !ok && len(list) == 1 {
			name, ok = schema.DefaultWorkload, true
		}
		last := i == len(list)-1
		if last && name == schema.DefaultWorkload && !r.has(schema.DefaultWorkload) && !r.has(schema.ToolsWorkload) {
			d.addBuiltIn(schema.ToolsWorkload)
		}
		d.newLabel(r, name, ok, s.At)
		d.File.Workloads = append(d.File.Workloads, schema.Workload{Name: name})
	}
	for _, name := range []string{schema.ToolsWorkload, schema.DefaultWorkload} {
		if !r.has(name) {
			d.addBuiltIn(name)
		}
	}
}

// has reports whether there is one of that name.
func (r *repeated) has(name string) bool {
	return slices.Contains(r.labels, document.Dotted(r.kind, name))
}

// addBuiltIn adds a workload that is not in the file.
func (d *Decoder) addBuiltIn(name string) {
	d.workloads.labels = append(d.workloads.labels, document.Dotted(schema.WorkloadKind, name))
	d.File.Workloads = append(d.File.Workloads, schema.BuiltIn(name))
}

// openWorkloads makes the keys of all workloads known.
func (d *Decoder) openWorkloads() {
	for i := range d.File.Workloads {
		w := &d.File.Workloads[i]
		d.openSection(d.workloads.labels[i], w.Fields())
		d.open[d.workloads.labels[i]+".match"] = schema.MatchFields(&w.Match)
	}
}

// checkWorkloads looks at what workloads are to each other.
func (d *Decoder) checkWorkloads() {
	d.checkNames()
	d.checkOrder()
	d.checkPatience()
	d.checkShares()
}

// checkNames sees to it that the workloads of a file can be told apart.
func (d *Decoder) checkNames() {
	seen := map[string]bool{}
	for _, i := range d.workloads.written {
		w, label := d.File.Workloads[i], d.workloads.labels[i]
		key := label + ".name"
		at, given := d.given[key]
		switch {
		case !d.Fine(key):
		case !given && len(d.workloads.written) > 1:
			d.complainAt(key, d.given[label], "is missing, and there is more than one workload", `Write name = "api".`)
		case seen[w.Name]:
			d.complainAt(key, at, strconv.Quote(w.Name)+" is the name of another workload", "")
		}
		seen[w.Name] = true
	}
}

// checkOrder looks for workloads that no client would ever come to: the first that matches
// is taken.
func (d *Decoder) checkOrder() {
	for i, w := range d.File.Workloads {
		label := d.workloads.labels[i]
		_, named := d.given[label+".name"]
		switch {
		case !named && !w.BuiltIn && len(d.workloads.written) > 1: // which is said already
		case d.hasBad(label) || !d.Fine(label+".name"):
		case w.Name == schema.DefaultWorkload:
			d.checkDefault(i)
		case w.Match.Everybody():
			d.complainAt(label, d.placeOf(append(d.matchKeys(label), label)...), `takes every client, so nobody would ever come to the workload "default"`,
				`Write match = { role = ["app"] }, or name = "default" if every client is meant.`)
		default:
			d.checkTwin(i)
		}
	}
}

// checkDefault looks at the workload "default", by its index.
func (d *Decoder) checkDefault(i int) {
	if keys := d.matchKeys(d.workloads.labels[i]); !d.File.Workloads[i].Match.Everybody() {
		d.complainAt(keys[0], d.placeOf(keys...), `the workload "default" is for all clients that are left, so it cannot choose`, "Give the workload another name, or leave match out.")
	}
	if i+1 < len(d.workloads.labels) && !d.File.Workloads[i+1].BuiltIn {
		next := d.workloads.labels[i+1]
		d.complainAt(next, d.given[next], `can never be reached: the workload "default" before it takes every client`, "Put it before.")
	}
}

// checkTwin looks for an earlier workload with the same match.
func (d *Decoder) checkTwin(i int) {
	for j := range i {
		if d.File.Workloads[j].Match.Equal(d.File.Workloads[i].Match) && !d.hasBad(d.workloads.labels[j]) {
			d.complainAt(d.workloads.labels[i], d.given[d.workloads.labels[i]], "can never be reached: "+d.workloads.labels[j]+" before it has the same match", "")
			return
		}
	}
}

// checkPatience gives the patient time to wait, and each class its own.
func (d *Decoder) checkPatience() {
	for i := range d.File.Workloads {
		w := &d.File.Workloads[i]
		_, given := d.given[d.workloads.labels[i]+".max_wait"]
		w.SettleWaits(given)
	}
}

// checkShares gives each workload its part, if they fit into the whole.
func (d *Decoder) checkShares() {
	sum, last := values.Share(0), ""
	var keys, terms []string
	shrinks := func(w *schema.Workload) bool {
		_, given := d.given[document.Dotted(schema.WorkloadKind, w.Name)+".share"]
		return w.BuiltIn && !given
	}
	for i := range d.File.Workloads {
		w := &d.File.Workloads[i]
		key := d.workloads.labels[i] + ".share"
		keys = append(keys, key)
		if w.Share.IsAuto() || shrinks(w) {
			continue
		}
		sum += w.Share
		last = key
		if terms = append(terms, w.Name+" "+w.Share.String()); len(terms) > 8 {
			terms = append(terms[:3], "...")
		}
	}
	switch {
	case !d.Fine(keys...):
	case sum > values.Whole:
		d.complainAt(last, d.given[last], "the shares add up to "+sum.String()+": "+strings.Join(terms, " + "), "Make them add up to 100% or less.")
	default:
		schema.DivideShares(d.File.Workloads, shrinks)
	}
}
