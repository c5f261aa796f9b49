package status

import (
	"crypto/sha256"
	_ "embed" // the files of the page
	"encoding/base64"
	"net/http"
	"strings"
)

// The page's parts: one file is sent, without anything that the browser would have to fetch.
var (
	//go:embed page/index.html
	pageHTML string
	//go:embed page/style.css
	pageStyle string
	//go:embed page/app.js
	pageScript string
)

// Where the parts go in index.html.
const (
	styleMark  = "/*style*/"
	scriptMark = "/*script*/"
)

// page is the status page. It holds nothing of this process: all that changes is polled from
// /status.json and put into the document as text, never as markup.
type page struct {
	html   []byte
	policy string
}

func newPage() *page {
	html := strings.Replace(pageHTML, styleMark, pageStyle, 1)
	html = strings.Replace(html, scriptMark, pageScript, 1)
	return &page{html: []byte(html), policy: "default-src 'none'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; " +
		"frame-ancestors 'none'; style-src " + hash(pageStyle) + "; script-src " + hash(pageScript)}
}

// hash names one inline element to the browser, which runs no other.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// ServeHTTP sends the page.
func (p *page) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", p.policy)
	_, _ = w.Write(p.html) // whoever hung up does not want it
}
