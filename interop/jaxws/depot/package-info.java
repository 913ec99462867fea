/** The depot on JAX-WS: a server, a client, and the beans that both use. */
@XmlSchema(namespace = "urn:example:depot", elementFormDefault = XmlNsForm.QUALIFIED)
package depot;

import jakarta.xml.bind.annotation.XmlNsForm;
import jakarta.xml.bind.annotation.XmlSchema;
