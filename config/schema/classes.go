package schema

import "github.com/pgweir/pgweir/admission"

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

// plainClasses are the names of the classes.
func plainClasses() []string {
	var list []string
	for _, c := range classes() {
		list = append(list, c.String())
	}
	return list
}
