package config

import (
	"slices"

	"github.com/pgweir/pgweir/admission"
)

// enumerated is a type of another package whose values have names.
type enumerated interface {
	comparable
	String() string
}

// enum is one of several values by its name.
func enum[T enumerated](target *T, all []T) kind {
	words := make([]string, len(all))
	for i, v := range all {
		words[i] = v.String()
	}
	word := ""
	k := choice(&word, words)
	read := k.set
	k.get = func() string { return quoted((*target).String()) }
	k.set = func(v value) *complaint {
		problem := read(v)
		if problem == nil {
			*target = all[slices.Index(words, word)]
		}
		return problem
	}
	return k
}

// policies are the orders of a queue.
func policies() []admission.Policy {
	list := make([]admission.Policy, admission.Policies)
	for i := range list {
		list[i] = admission.Policy(i)
	}
	return list
}

// classes are the classes, the highest first.
func classes() []admission.Class {
	list := make([]admission.Class, admission.Classes)
	for i := range list {
		list[i] = admission.ClassAt(i)
	}
	return list
}

// modes are the modes of a control.
func modes() []admission.Mode {
	return []admission.Mode{admission.Enforce, admission.DryRun, admission.Off}
}
