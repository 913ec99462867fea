package app

// tellOrphans writes an error line for every route that the configuration does not
// have any more and of which messages are stored: nobody delivers them until an
// operator moves or drops them, or the route is back. A gateway with such messages
// stays ready.
func (p *depot) tellOrphans() {
	s := p.present.Load()
	if s == nil || !s.queue.Loaded() {
		return
	}
	for _, st := range s.queue.Stats() {
		if st.Destination == "" && st.Orphaned+st.Dead > 0 {
			p.log.Error("messages wait for a route that is gone", "route", st.Route, "orphaned", st.Orphaned, "dead", st.Dead,
				"hint", "gateway queue move --from "+st.Route+" --to ROUTE, or gateway queue drop, or configure the route again")
		}
	}
}
