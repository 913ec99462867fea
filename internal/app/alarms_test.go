package app

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"soapway/config"
	"soapway/internal/admin"
	"soapway/internal/telemetry"
)

func kinds(a *App) (list []string) {
	conditions, _ := a.conditions()
	for _, c := range conditions {
		list = append(list, strings.TrimSpace(c.Kind+" "+c.Subject))
	}
	slices.Sort(list)
	return list
}

// TestConditions: what is wrong is listed while it is.
func TestConditions(t *testing.T) {
	b := newTaker(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) })
	g := start(t, storeHead+"routes:\n"+queueRoute("orders", b.URL+"/in"))
	if got := kinds(g.app); len(got) > 0 {
		t.Fatalf("all is well, and %q", got)
	}
	p := g.app.depot
	if status, _ := g.post(http.DefaultClient, "/orders"); status != http.StatusAccepted {
		t.Fatalf("got %d", status)
	}
	g.eventually("the dead letter", func() bool { return slices.Equal(kinds(g.app), []string{"dead-letters orders"}) })

	watch := storeWatch{telemetry.NewMetrics(), &p.happenings}
	watch.Gap(1, 2)
	watch.Damage(errors.New("damage"))
	observer{watch.Metrics, telemetry.NewHistory(), new(admin.Events), &p.happenings}.ClockSet(-2 * time.Hour)
	low := *p.cfg.Load()
	low.Store.MinFree = config.Size(1 << 60)
	p.cfg.Store(&low)
	if got, want := kinds(g.app), []string{"clock-step", "dead-letters orders", "disk-low", "store-damage", "store-gap"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	long := time.Now().Add(-48 * time.Hour).Unix()
	p.happenings.gap.Store(long)
	p.happenings.damage.Store(long)
	p.happenings.clock.Store(long)
	p.present.Load().close(errors.New("a disk that failed"))
	if got, want := kinds(g.app), []string{"dead-letters orders", "disk-low", "store-error"}; !slices.Equal(got, want) {
		t.Errorf("later: got %q, want %q", got, want)
	}
}
