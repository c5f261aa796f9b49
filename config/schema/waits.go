package schema

import (
	"slices"
	"strings"
	"time"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/config/document"
	"github.com/pgweir/pgweir/config/values"
)

// shortestWait and longestWait bound max_wait and deadline.
const (
	shortestWait = time.Millisecond
	longestWait  = time.Hour
)

// waits is max_wait: a duration for all classes, or a table of them.
func waits(w *Workload) values.Type {
	one := values.Period(&w.MaxWait, shortestWait, longestWait)
	k := values.Type{Admits: one.Admits + ", or a table of them by class"}
	k.Get = func() string {
		if w.named == [admission.Classes]values.Duration{} {
			return one.Get()
		}
		var list []string
		for i, d := range w.named {
			if d != 0 {
				list = append(list, admission.ClassAt(i).String()+" = "+values.Quote(d.String()))
			}
		}
		return "{ " + strings.Join(list, ", ") + " }"
	}
	k.Set = func(v values.Value) *values.Complaint {
		if v.Kind == document.Table {
			return classWaits(w, v)
		}
		problem := one.Set(v)
		if problem == nil {
			w.named = [admission.Classes]values.Duration{}
		}
		return problem
	}
	return k
}

// classWaits reads the table.
func classWaits(w *Workload, v values.Value) *values.Complaint {
	var named [admission.Classes]values.Duration
	var problems *values.Complaint
	if len(v.Items) == 0 {
		return &values.Complaint{Message: "the table names no class", Fix: `{ critical = "2s", sheddable = "500ms" }`}
	}
	for i, item := range v.Items {
		problem := classWait(&named, v.Names[i].Text, values.Value{Node: item, Env: v.Env})
		if problem != nil {
			problem.Element = i + 1
			problems = problems.And(problem)
		}
	}
	if problems == nil {
		w.named = named
	}
	return problems
}

// classWait reads the wait of the class of a name.
func classWait(named *[admission.Classes]values.Duration, class string, v values.Value) *values.Complaint {
	i := slices.Index(plainClasses(), class)
	if i < 0 {
		advice := "Write " + values.OrList(plainClasses()) + "."
		if near := values.Nearest(class, plainClasses()); near != "" {
			advice = "Did you mean " + near + "?"
		}
		return &values.Complaint{Message: values.Quote(class) + " is not a class", Advice: advice, OnName: true}
	}
	problem := values.Period(&named[i], shortestWait, longestWait).Set(v)
	if problem != nil && problem.Fix != "" {
		problem.Fix, problem.Advice = "", "Write "+class+" = "+problem.Fix+"."
	}
	return problem
}

// SettleWaits makes MaxWait and ClassWait of what the file says, if max_wait is given there,
// and else of what is usual, which depends on Patient.
func (w *Workload) SettleWaits(given bool) {
	usual := w.usualWait()
	if !given {
		w.MaxWait = usual
	}
	w.ClassWait = [admission.Classes]values.Duration{}
	i := slices.IndexFunc(w.named[:], func(d values.Duration) bool { return d != 0 })
	if i < 0 {
		return
	}
	wait := max(usual, w.named[i])
	for i, d := range w.named {
		if d != 0 {
			wait = d
		}
		w.ClassWait[i] = wait
	}
	w.MaxWait = slices.Max(w.ClassWait[:])
}

// usualWait is what clients wait when nobody says.
func (w *Workload) usualWait() values.Duration {
	usual := Workload{Patient: w.Patient}
	SetDefaults(slices.DeleteFunc(usual.Fields(), func(f Field) bool { return f.Name != "max_wait" }), "")
	return usual.MaxWait
}

// deadline is how long clients wait: a duration, "none" or "learn".
func deadline(w *Workload) values.Type {
	d := values.None
	inner := values.PeriodOrNone(&d, shortestWait, longestWait)
	k := values.Type{Admits: `"none", "learn" or ` + strings.TrimPrefix(inner.Admits, `"none" or `)}
	k.Get = func() string {
		switch {
		case w.LearnDeadline:
			return `"learn"`
		case w.Deadline == 0:
			return `"none"`
		default:
			return values.Quote(w.Deadline.String())
		}
	}
	k.Set = func(v values.Value) *values.Complaint {
		if v.Kind == document.Text && v.Text == "learn" {
			w.Deadline, w.LearnDeadline = 0, true
			return nil
		}
		if problem := inner.Set(v); problem != nil {
			problem.Message = strings.Replace(problem.Message, inner.Admits, k.Admits, 1)
			problem.Advice = strings.Replace(problem.Advice, inner.Admits, k.Admits, 1)
			return problem
		}
		w.Deadline, w.LearnDeadline = max(d, 0), false
		return nil
	}
	return k
}

// TableKeys are the keys whose value may be a table.
func TableKeys() []document.TableKey {
	return []document.TableKey{{Section: WorkloadKind, Key: "max_wait"}}
}
