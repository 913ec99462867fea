package upstream

import (
	"bufio"
	"bytes"
	"net/http"
	"testing"
)

// FuzzHeadScan compares the scan with net/http: where net/http finds the end of
// the final head, the scan must have found it, or a lack of it would be taken
// for an answer from before the request. And an answer that net/http gives a
// length by one of two fields must have no other.
func FuzzHeadScan(f *testing.F) {
	f.Add([]byte(okReply))
	f.Add([]byte("HTTP/1.1 100 Continue\r\nA: b\r\n\r\nHTTP/1.0 200\r\nTransfer-Encoding: chunked\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 200 OK\nContent-Length: 4\nTransfer-Encoding:chunked\n\n"))
	f.Add([]byte("HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\tc\r\nContent-Length : 4\r\n\r\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var h headScan
		end := -1
		for i := range raw {
			if h.feed(raw[i : i+1]); h.done {
				end = i + 1
				break
			}
		}
		var whole headScan
		whole.feed(raw)
		if whole.done != h.done || whole.ambiguous != h.ambiguous {
			t.Fatalf("%q: octet by octet done %v, ambiguous %v; whole %v, %v", raw, h.done, h.ambiguous, whole.done, whole.ambiguous)
		}

		src := bytes.NewReader(raw)
		r := bufio.NewReaderSize(src, 64<<10)
		for {
			resp, err := http.ReadResponse(r, &http.Request{Method: "POST"})
			if err != nil {
				return // no answer anyway
			}
			if resp.StatusCode/100 == 1 && resp.StatusCode != 101 {
				continue
			}
			if want := len(raw) - src.Len() - r.Buffered(); end != want {
				t.Errorf("%q: end of head at %d, net/http has it at %d", raw, end, want)
			}
			if len(resp.TransferEncoding) > 0 && resp.ProtoMajor == 1 && resp.ProtoMinor == 0 && !h.ambiguous {
				t.Errorf("%q: chunked under HTTP/1.0 was not noticed", raw)
			}
			return
		}
	})
}
