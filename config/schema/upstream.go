package schema

import "fmt"

// Each is the part of one instance in what is meant for all.
func (u *Upstream) Each(n int) int { return max(1, n/max(1, u.Instances)) }

// smallBudget is the largest budget under which the default reserve shrinks to nothing.
const smallBudget = 4

// ReserveOf is the reserve of an instance with this budget, with a note if it is not what
// the table of defaults says.
func (u *Upstream) ReserveOf(budget int) (reserve int, note string) {
	if u.ReserveGiven || u.Reserve == 0 || budget > smallBudget {
		return min(u.Reserve, u.Each(u.Reserve)), ""
	}
	return 0, fmt.Sprintf("reserve shrinks from %d to 0, because the budget is only %d", u.Reserve, budget)
}
