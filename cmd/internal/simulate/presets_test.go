package simulate

import (
	"context"
	"os"
	"testing"
)

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
				names = append(names, in.Name)
				reports = append(reports, Sweep(context.Background(), s, 1))
			}
			if testing.Verbose() {
				_ = Compare(os.Stdout, names, reports, p.Focus)
			}
		})
	}
}
