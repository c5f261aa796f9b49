package decode

import (
	"fmt"
	"slices"

	"github.com/pgweir/pgweir/config/document"
	"github.com/pgweir/pgweir/config/schema"
	"github.com/pgweir/pgweir/config/values"
)

// Resolve finds the full name of a key of a file from a part of it. The error is a
// [document.Problem].
func Resolve(f *schema.File, key string) (string, error) {
	var keys []string
	tools := false
	for _, s := range schema.Sections(f) {
		for _, f := range s.Fields {
			keys = append(keys, s.KeyOf(f.Name))
		}
	}
	for _, w := range f.Workloads {
		tools = tools || w.BuiltIn && w.Name == schema.ToolsWorkload
	}
	full, problem := resolve(key, keys, tools)
	if problem != nil {
		return "", document.Problem{File: setSource, Key: full, Message: problem.Message, Fix: problem.Advice}
	}
	return full, nil
}

// resolve finds the one key whose parts end with the name and have the others of text in
// their order. tools tells that the workload of this name does not count unless named.
func resolve(text string, keys []string, tools bool) (string, *values.Complaint) {
	want := document.KeyParts(text)
	slices.Sort(keys)
	var fitting, names []string
	for _, key := range keys {
		parts := document.KeyParts(key)
		if len(parts) == 0 {
			continue // of a section whose name is refused and cannot be written
		}
		names = append(names, parts[len(parts)-1])
		switch {
		case slices.Equal(parts, want):
			return key, nil
		case !isWithin(want, parts):
		case tools && len(parts) > 2 && parts[0] == schema.WorkloadKind && parts[1] == schema.ToolsWorkload && !slices.Contains(want, schema.ToolsWorkload):
		default:
			fitting = append(fitting, key)
		}
	}
	switch {
	case len(fitting) == 1:
		return fitting[0], nil
	case len(fitting) > maxCandidates:
		return "", &values.Complaint{Message: fmt.Sprintf("could be %d keys", len(fitting)), Advice: "Write the name of the section before it, as in " + fitting[0] + "."}
	case len(fitting) > 1:
		return "", &values.Complaint{Message: fmt.Sprintf("could be %d keys", len(fitting)), Advice: "Write " + values.OrList(fitting) + "."}
	}
	p := &values.Complaint{Message: "there is no such key"}
	last := ""
	if len(want) > 0 {
		last = want[len(want)-1]
	}
	switch near := values.Nearest(last, names); {
	case near != "" && near != last:
		p.Advice = "Did you mean " + near + "?"
	case near != "":
		p.Advice = "There is " + near + " in other sections: SHOW CONFIG has all keys."
	default:
		p.Advice = "SHOW CONFIG has all keys."
		if fix := elsewhere(last); fix != "" {
			p.Advice = fix
		}
	}
	return "", p
}

// maxCandidates is how many keys a problem lists.
const maxCandidates = 8

// isWithin reports whether the words of part stand in whole in this order, the last of both
// being the same.
func isWithin(part, whole []string) bool {
	if len(part) == 0 || part[len(part)-1] != whole[len(whole)-1] {
		return false
	}
	i := 0
	for _, word := range whole {
		if i < len(part) && part[i] == word {
			i++
		}
	}
	return i == len(part)
}
