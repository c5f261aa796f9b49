package simulate

import (
	"context"
	"io"
	"testing"
	"time"
)

// short cuts the load off after d.
func (s *Scenario) short(d time.Duration) {
	for i := range s.Load {
		s.Load[i].Length = min(s.Load[i].Length, d)
		d -= s.Load[i].Length
		if d <= 0 {
			s.Load = s.Load[:i+1]
			return
		}
	}
}

func TestPresetsRun(t *testing.T) {
	for _, p := range Presets() {
		t.Run(p.Name, func(t *testing.T) {
			list, err := p.Inputs(p.Policies(), nil)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			var reports []*Report
			for _, in := range list {
				s, err := Build(in.Input)
				if err != nil {
					t.Fatal(err)
				}
				s.short(time.Second)
				names = append(names, in.Name)
				reports = append(reports, Sweep(context.Background(), s, 1))
			}
			if err := Compare(io.Discard, names, reports, p.Focus); err != nil {
				t.Error(err)
			}
			if reports[0].Requests == 0 {
				t.Error("nothing happened")
			}
		})
	}
}
