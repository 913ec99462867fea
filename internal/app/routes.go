package app

import (
	"log/slog"
	"slices"
	"time"

	"soapway/config"
	"soapway/proxy"
	"soapway/soapcodec"
	"soapway/xmlstream"
)

// tableOptions makes the options of the routing table.
func tableOptions(cfg *config.Config, pools pools, guards guards, log *slog.Logger) proxy.TableOptions {
	opt := proxy.TableOptions{TrustedProxies: cfg.TrustedProxies, PublicURL: cfg.PublicURL}
	shelf := shelf(cfg)
	for i := range cfg.Routes {
		r := &cfg.Routes[i]
		p := route(r, pools[poolKey(r)].backend)
		for _, n := range r.ReplyNodes() {
			p.ReplyAt = append(p.ReplyAt, pools[replyKey(n)].backend)
		}
		if s := r.Shadow; s != nil && s.Percent > 0 {
			p.Shadow = &proxy.Shadow{Backend: pools["backends."+s.Backend].backend, Percent: s.Percent}
		}
		p.Guard = guards.of(r.Name)
		p.WSDL = description(r, shelf, log)
		opt.Routes = append(opt.Routes, p)
	}
	return opt
}

func route(r *config.Route, backend *proxy.Backend) proxy.Route {
	p := proxy.Route{
		Name:      r.Name,
		MatchNone: r.Match.None,
		Match: proxy.Match{
			Host:         r.Match.Host,
			Path:         r.Match.Path.String(),
			Operation:    soapcodec.QName{Space: r.Match.Operation.Space, Local: r.Match.Operation.Local},
			AnyNamespace: r.Match.Operation.AnySpace,
			Headers:      r.Match.Headers,
		},
		Backend:   backend,
		OneWay:    oneWay(r.OneWay),
		WSDLPass:  r.WSDL.Mode == config.WSDLOff,
		EmptyPost: r.EmptyPost == config.EmptyPostPass,
		Accept11:  slices.Contains(r.SOAP.Accept, config.SOAP11),
		Accept12:  slices.Contains(r.SOAP.Accept, config.SOAP12),
		Normalize: normalize(r.SOAP.Normalize),
		Node:      r.SOAP.Node,
		Translate: translate(r.SOAP.Translate),
		Strict:    r.SOAP.Strict,
		WSATo:     r.SOAP.WSATo == config.WSAToNode,
		Mark:      r.SOAP.Mark == config.MarkBlock,
		Limits:    limits(&r.Limits.Limits),
	}
	switch r.Delivery {
	case config.DeliveryQueue:
		p.Delivery = proxy.Queue
	case config.DeliverySyncThenQueue:
		p.Delivery, p.Hold = proxy.SyncThenQueue, r.Hold.Or(forever)
		p.StoreMaybe = r.Assurance == config.AtLeastOnce
	}
	p.OrderBy = key(&r.OrderBy)
	p.StoreCredentials = r.StoreCredentials
	p.KeepReplies, p.ReplyTo = r.Reply == config.ReplyStore, r.Reply == config.ReplyTo
	if p.KeepReplies || p.ReplyTo {
		p.ReplyKeep = r.ReplyKeep.Or(-1)
	}
	if d := r.Dedup; d != nil {
		p.Dedup = &proxy.Dedup{By: key(&d.By.Key), Window: time.Duration(d.Window)}
	}
	if r.Match.Action != nil {
		p.Match.Action = *r.Match.Action
	}
	for _, m := range r.Methods {
		if m != "POST" { // carries SOAP on every route
			p.Methods = append(p.Methods, m)
		}
	}
	return p
}

// keySources maps the configuration's words to the proxy's.
var keySources = map[config.OrderKind]proxy.KeySource{
	config.OrderRoute:  proxy.KeyRoute,
	config.OrderHTTP:   proxy.KeyHTTP,
	config.OrderHeader: proxy.KeyHeader,
	config.OrderBody:   proxy.KeyBody,
}

func key(o *config.OrderBy) proxy.Key {
	k := proxy.Key{Source: keySources[o.Kind], Field: o.HTTP}
	for _, q := range o.Path {
		k.Path = append(k.Path, soapcodec.Step{Name: soapcodec.QName{Space: q.Space, Local: q.Local}, AnySpace: q.AnySpace})
	}
	return k
}

func oneWay(o config.OneWay) proxy.OneWay {
	switch o {
	case config.OneWayYes:
		return proxy.OneWayYes
	case config.OneWayNo:
		return proxy.OneWayNo
	}
	return proxy.OneWayAuto
}

func normalize(n config.Normalize) soapcodec.Normalize {
	switch n {
	case config.NormalizeEnvelope:
		return soapcodec.Envelope
	case config.NormalizeCanonical:
		return soapcodec.Canonical
	}
	return soapcodec.Keep
}

func translate(t config.Translate) soapcodec.Version {
	switch t {
	case config.Translate11:
		return soapcodec.V11
	case config.Translate12:
		return soapcodec.V12
	}
	return soapcodec.V0
}

// limits keeps the meaning of a negative value, unlimited, which is the same on
// both sides; a zero is not possible in a configuration.
func limits(l *config.Limits) proxy.Limits {
	return proxy.Limits{
		MaxMessage:  int64(l.MaxMessage),
		Buffer:      int64(l.Buffer),
		DecodeRatio: int64(l.DecodeRatio),
		HeaderBytes: int64(l.HeaderBytes),
		XML: xmlstream.Limits{
			Depth:          int(l.Depth),
			Attributes:     int(l.Attributes),
			Namespaces:     int(l.Namespaces),
			Name:           int(l.Name),
			AttributeValue: int(l.AttributeValue),
			Elements:       int64(l.Elements),
			Text:           int64(l.Text),
		},
	}
}
