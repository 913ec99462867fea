package attic;

import com.sun.xml.ws.developer.JAXWSProperties;
import depot.Client;
import jakarta.activation.DataHandler;
import jakarta.activation.FileDataSource;
import jakarta.xml.ws.BindingProvider;
import jakarta.xml.ws.Dispatch;
import jakarta.xml.ws.Holder;
import jakarta.xml.ws.Service;
import jakarta.xml.ws.WebServiceFeature;
import jakarta.xml.ws.soap.MTOMFeature;
import jakarta.xml.ws.soap.SOAPFaultException;
import java.io.File;
import java.io.FileInputStream;
import java.io.PrintStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.logging.LogManager;
import javax.xml.namespace.QName;
import javax.xml.transform.Source;
import javax.xml.transform.stream.StreamSource;

/**
 * The attic's caller; one JSON line for each operation, which may have an argument
 * behind "=". The addresses in URL?wsdl count, or with another WSDL the URL.
 * Run: java attic.AtticClient URL 11|12 -|WSDL mtom|plain OPERATION...
 */
public final class AtticClient {
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    private static final int PIECE = 1 << 16;

    private AtticClient() {}

    public static void main(String[] args) throws Exception {
        LogManager.getLogManager().reset();
        boolean mtom = args[3].equals("mtom");
        WebServiceFeature[] features = mtom ? new WebServiceFeature[] {new MTOMFeature(true, 100)} : new WebServiceFeature[0];
        QName name = new QName(Attic.NS, "Port" + args[1]);
        String wsdl = args[2].equals("-") ? args[0] + "?wsdl" : args[2];
        Service service = Service.create(URI.create(wsdl).toURL(), new QName(Attic.NS, "Attic"));
        Attic attic = service.getPort(name, Attic.class, features);
        if (!args[2].equals("-")) {
            ((BindingProvider) attic).getRequestContext().put(BindingProvider.ENDPOINT_ADDRESS_PROPERTY, args[0]);
        }
        // Files are sent as they are read, in chunks.
        ((BindingProvider) attic).getRequestContext().put(JAXWSProperties.HTTP_CLIENT_STREAMING_CHUNK_SIZE, PIECE);
        for (String arg : Arrays.asList(args).subList(4, args.length)) {
            String[] op = arg.split("=", 2);
            String line;
            try {
                line = run(service, name, args[0], attic, op[0], op.length > 1 ? op[1] : "");
            } catch (SOAPFaultException e) {
                line = Client.fault(e);
            } catch (Attic.AtticFault e) {
                line = "\"fault\":" + Client.quoted(e.getMessage()) + ",\"reason\":" + Client.quoted(e.getFaultInfo().reason);
            }
            OUT.println("{\"op\":" + Client.quoted(op[0]) + "," + line + "}");
        }
    }

    private static String run(Service service, QName name, String url, Attic attic, String op, String arg) throws Exception {
        switch (op) {
            case "tag":
                Holder<Attic.Ticket> ticket = new Holder<>(new Attic.Ticket());
                ticket.value.number = "T-1";
                Attic.Note back = attic.tag(new Attic.Note(arg), ticket);
                return "\"text\":" + Client.quoted(back.text) + ",\"ticket\":" + Client.quoted(ticket.value.number);
            case "drop":
                attic.drop(new Attic.Note(arg));
                return "\"sent\":true";
            case "fail":
                return "\"text\":" + Client.quoted(attic.fail(new Attic.Note(arg)).text);
            case "look":
                return "\"text\":" + Client.quoted(attic.look(new Attic.Note("")).text);
            case "keep":
                return kept(attic.keep(mtom(arg)), arg);
            case "stow":
                attic.stow(mtom(arg));
                return "\"digest\":" + Client.quoted(Digest.of(new FileInputStream(arg)));
            case "keep-attached":
                return kept(attic.keepAttached(swa(arg)), arg);
            case "stow-attached":
                attic.stowAttached(swa(arg));
                return "\"digest\":" + Client.quoted(Digest.of(new FileInputStream(arg)));
            case "raw": // an envelope in a file
                Dispatch<Source> raw = service.createDispatch(name, Source.class, Service.Mode.MESSAGE);
                raw.getRequestContext().put(BindingProvider.ENDPOINT_ADDRESS_PROPERTY, url);
                raw.invoke(new StreamSource(new File(arg)));
                return "\"sent\":true";
            default:
                throw new IllegalArgumentException(op);
        }
    }

    private static String kept(Attic.Note answer, String file) throws Exception {
        String own = new File(file).getName() + " " + Digest.of(new FileInputStream(file));
        return "\"digest\":" + Client.quoted(own.split(" ", 2)[1]) + ",\"same\":" + own.equals(answer.text);
    }

    private static Attic.MtomFile mtom(String file) {
        Attic.MtomFile f = new Attic.MtomFile();
        f.name = new File(file).getName();
        f.data = new DataHandler(new FileDataSource(file));
        return f;
    }

    private static Attic.SwaFile swa(String file) {
        Attic.SwaFile f = new Attic.SwaFile();
        f.name = new File(file).getName();
        f.data = new DataHandler(new FileDataSource(file));
        return f;
    }
}
