// Package experiment has the experiments of `pgweir bench run` by their names: what each
// sends to whom, what was published about it, and what pgweir's guard has to reach.
package experiment

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pgweir/pgweir/cmd/internal/bench/scenario"
)

// All are the scenarios, in the order of the list.
func All() []scenario.Scenario {
	return slices.Concat(queueScenarios(), fairScenarios(), databaseScenarios(), clientScenarios(), rateScenarios(), costScenarios())
}

// Find returns the scenarios of a name: one, or all of a group.
func Find(name string) ([]scenario.Scenario, error) {
	var list []scenario.Scenario
	all := All()
	for _, s := range all {
		if strings.EqualFold(s.Name, name) {
			return []scenario.Scenario{s}, nil
		}
		if strings.EqualFold(s.Group, name) {
			list = append(list, s)
		}
	}
	if list == nil {
		var names []string
		for _, s := range all {
			names = append(names, s.Name)
		}
		return nil, fmt.Errorf("no scenario %q; there are %s", name, strings.Join(names, ", "))
	}
	return list, nil
}

// names are n names: a stem and a number.
func names(stem string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprint(stem, "-", i)
	}
	return list
}
