package integration

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// httpGet asks one of pgweir's HTTP listeners.
func httpGet(address, path string) (code int, body string, err error) {
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Get("http://" + address + path)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = r.Body.Close() }() // only read
	b, err := io.ReadAll(r.Body)
	return r.StatusCode, string(b), err
}

// wantReady asks /readyz.
func wantReady(t *testing.T, address string, code int, text string) {
	t.Helper()
	got, body, err := httpGet(address, "/readyz")
	if err != nil || got != code || strings.TrimSpace(body) != text {
		t.Errorf("readyz: %d %q, %v; want %d %q", got, body, err, code, text)
	}
}
