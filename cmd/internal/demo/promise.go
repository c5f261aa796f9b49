package demo

import "fmt"

// promise is what pgweir keeps under any load and any policy.
type promise struct {
	kept   func(*result) bool
	broken func(*result) string
}

// promises are all that the demonstration can see.
func promises() []promise {
	return []promise{
		{
			func(r *result) bool { return r.servers <= budget },
			func(r *result) string {
				return fmt.Sprintf("Postgres had %d connections, more than the budget of %d", r.servers, budget)
			},
		},
		{
			func(r *result) bool { return r.lost == 0 },
			func(r *result) string { return plural(r.lost, "session") + " ended or could not be opened" },
		},
		{
			func(r *result) bool { return r.failed() == 0 },
			func(r *result) string { return plural(r.failed(), "arrival") + " ended in another error" },
		},
	}
}

// broken is ErrBroken unless all promises were kept.
func broken(results []*result) error {
	for _, r := range results {
		for _, p := range promises() {
			if !p.kept(r) {
				return ErrBroken
			}
		}
	}
	return nil
}
