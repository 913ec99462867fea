package faultlab

import (
	"fmt"
	"io"
	"net/http"
	"strings"
)

// lostReplies asks, as their callers would, for the replies of all messages that
// were accepted on routes that keep them, and returns how many were asked for
// and what is wrong: each has been answered by now, or is a dead letter.
func (l *lab) lostReplies() (asked int, wrong []string) {
	dead := map[string]bool{}
	for _, d := range l.rec.h.Dead {
		dead[d.ID] = true
	}
	client := &http.Client{Timeout: clientTimeout}
	defer client.CloseIdleConnections()
	for i := range l.rec.h.Ops {
		o := &l.rec.h.Ops[i]
		if !l.rec.h.Kept[o.Route] || o.Outcome != accepted || o.ID == "" {
			continue
		}
		asked++
		status, body, err := ask(client, "http://"+l.gw.addr["web"]+"/_gateway/messages/"+o.ID)
		switch {
		case err != nil:
			wrong = append(wrong, fmt.Sprintf("reply of %s (%s): %v", o.Key, o.ID, err))
		case dead[o.ID] && status == http.StatusInternalServerError && strings.Contains(body, "DeadLettered"):
		case !dead[o.ID] && (status == http.StatusOK && body == replyEnvelope || status == http.StatusNoContent && body == ""):
		default:
			wrong = append(wrong, fmt.Sprintf("reply of %s (%s) is lost: %d %.100q", o.Key, o.ID, status, body))
		}
	}
	return asked, wrong
}

func ask(client *http.Client, url string) (status int, body string, err error) {
	resp, err := client.Get(url)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}
