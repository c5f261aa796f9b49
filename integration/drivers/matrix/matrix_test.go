package matrix

import (
	"errors"
	"os"
	"testing"
	"time"
)

// Every driver has the same of every theme through pgweir, in transaction mode and with
// fewer servers than clients, as directly.
func TestMatrix(t *testing.T) {
	s := newStage(t)
	for _, name := range names() {
		t.Run(name, func(t *testing.T) {
			a, err := find(t, name, s.Programs)
			if errors.Is(err, errMissing) && os.Getenv(requireEnv) == "" {
				t.Skipf("%v (.ci/setup drivers installs it)", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			s.driver = name
			for _, th := range themes() {
				ok := t.Run(th.name, func(t *testing.T) {
					start := time.Now()
					got := th.compare(t, s, a)
					t.Logf("%s, %v", got, time.Since(start).Round(time.Millisecond))
					if want := expected(name, th.name); got != want && !t.Failed() {
						t.Errorf("%q, the table says %q", got, want)
					}
				})
				if !ok {
					break // its connections are in no known state
				}
			}
			if err := a.close(); err != nil {
				t.Error(err)
			}
		})
	}
}
