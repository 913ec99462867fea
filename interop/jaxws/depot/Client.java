package depot;

import jakarta.xml.soap.SOAPFault;
import jakarta.xml.ws.BindingProvider;
import jakarta.xml.ws.Service;
import jakarta.xml.ws.soap.SOAPFaultException;
import java.io.File;
import java.io.PrintStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.logging.LogManager;
import javax.xml.namespace.QName;

/**
 * The depot's caller; one JSON line for each operation.
 * Run: java depot.Client URL 11|12 OPERATION...
 * With DEPOT_WSDL, which is a URL, the addresses in that WSDL count.
 */
public final class Client {
    private static final String TEXT = "h\u00e9llo <&> ]]> \u6d4b\u8bd5";
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    private Client() {}

    public static void main(String[] args) throws Exception {
        LogManager.getLogManager().reset();
        String fetched = System.getenv("DEPOT_WSDL");
        URI wsdl = fetched != null ? URI.create(fetched) : new File("depot.wsdl").getAbsoluteFile().toURI();
        Service service = Service.create(wsdl.toURL(), new QName(Depot.NS, "Depot"));
        Depot depot = service.getPort(new QName(Depot.NS, "Port" + args[1]), Depot.class);
        if (fetched == null) {
            ((BindingProvider) depot).getRequestContext().put(BindingProvider.ENDPOINT_ADDRESS_PROPERTY, args[0]);
        }
        for (String name : Arrays.asList(args).subList(2, args.length)) {
            String line;
            try {
                line = run(depot, name);
            } catch (SOAPFaultException e) {
                line = fault(e);
            }
            OUT.println("{\"op\":" + quoted(name) + "," + line + "}");
        }
    }

    private static String run(Depot depot, String name) {
        switch (name) {
            case "quote":
                Depot.Quote quote = new Depot.Quote();
                quote.grams = 6;
                quote.zone = 7;
                return "\"cents\":" + depot.quote(quote).cents;
            case "label":
                return "\"text\":" + quoted(label(depot, TEXT));
            case "bulk":
                String text = TEXT.repeat(40000);
                String got = label(depot, text);
                return "\"octets\":" + got.getBytes(StandardCharsets.UTF_8).length + ",\"same\":" + got.equals(text);
            case "locate":
                return locate(depot, "P-1", "top");
            case "locate-nil":
                return locate(depot, "P-2", null);
            case "refuse":
                Depot.Refuse refuse = new Depot.Refuse();
                refuse.parcel = TEXT;
                return "\"refused\":" + quoted(String.valueOf(depot.refuse(refuse)));
            default:
                throw new IllegalArgumentException(name);
        }
    }

    private static String label(Depot depot, String text) {
        Depot.Label label = new Depot.Label();
        label.text = text;
        return depot.label(label).text;
    }

    private static String locate(Depot depot, String parcel, String hint) {
        Depot.Locate locate = new Depot.Locate();
        locate.parcel = parcel;
        locate.hint = hint;
        Depot.LocateResponse out = depot.locate(locate);
        return "\"shelf\":" + out.shelf + (out.note == null ? "" : ",\"note\":" + quoted(out.note));
    }

    /** A fault as the other clients print it. */
    public static String fault(SOAPFaultException e) {
        SOAPFault fault = e.getFault();
        String detail = fault.getDetail() == null ? "" : fault.getDetail().getTextContent().trim();
        return "\"exception\":" + quoted(e.getClass().getName())
                + ",\"code\":" + quoted(fault.getFaultCodeAsQName().getLocalPart())
                + ",\"message\":" + quoted(fault.getFaultString())
                + ",\"detail\":" + quoted(detail);
    }

    /** A string of JSON. */
    public static String quoted(String s) {
        StringBuilder b = new StringBuilder("\"");
        for (char c : s.toCharArray()) {
            if (c == '"' || c == '\\') {
                b.append('\\').append(c);
            } else if (c < ' ') {
                b.append(String.format("\\u%04x", (int) c));
            } else {
                b.append(c);
            }
        }
        return b.append('"').toString();
    }
}
