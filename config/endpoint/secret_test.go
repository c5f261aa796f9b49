package endpoint

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/pgweir/pgweir/config/values"
)

func TestSecretsDoNotPrint(t *testing.T) {
	s := values.NewSecret("hunter2")
	holder := struct {
		A values.Secret
		B *values.Secret
		C []values.Secret
		U URL
		d values.Secret
	}{s, &s, []values.Secret{s}, URL{User: "u", Password: s}, s}
	var b strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%c", "%p"} {
		fmt.Fprintf(&b, verb+"\n", s)
		fmt.Fprintf(&b, verb+"\n", &s)
		fmt.Fprintf(&b, verb+"\n", holder)
	}
	encoded, err := json.Marshal(holder)
	if err != nil {
		t.Fatal(err)
	}
	b.Write(encoded)
	slog.New(slog.NewTextHandler(&b, nil)).Info("x", "s", s, "h", holder)
	slog.New(slog.NewJSONHandler(&b, nil)).Info("x", "s", s, "h", holder)
	for _, leak := range []string{"hunter2", fmt.Sprintf("%x", "hunter2"), fmt.Sprintf("%X", "hunter2"), "104 117 110"} {
		if strings.Contains(b.String(), leak) {
			t.Errorf("%q in:\n%s", leak, b.String())
		}
	}
	if s.Reveal() != "hunter2" || !s.IsSet() || !s.Equal(values.NewSecret("hunter2")) || s.Equal(values.NewSecret("hunter3")) {
		t.Error("the secret is not what it was")
	}
	if (values.Secret{}).String() != "" || (values.Secret{}).IsSet() {
		t.Error("no secret pretends to be one")
	}
}
