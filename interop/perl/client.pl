#!/usr/bin/perl
# The depot's caller on SOAP::Lite; one JSON line for each operation.
# Run: perl client.pl URL 11|12 OPERATION...

use strict;
use warnings;
use utf8;
use JSON::PP;
use SOAP::Lite;

my $TEXT = 'héllo <&> ]]> 测试';
my ($url, $version, @names) = @ARGV;

# The version must be set before new, or the Envelope is sent in no namespace.
SOAP::Lite->soapversion($version eq '12' ? '1.2' : '1.1');
my $depot = SOAP::Lite->new(proxy => [$url, timeout => 30]);
$depot->ns('urn:example:depot', 'd');
$depot->on_action(sub { qq("urn:example:depot#$_[1]") });
$depot->serializer->encodingStyle('');    # by default it is on Envelope, where SOAP 1.2 allows none
$depot->on_fault(sub {
    my ($soap, $answer) = @_;
    die ref $answer ? $answer : $soap->transport->status . "\n";
});

# send_to calls an operation and returns the reply, or dies with it when it is a fault.
sub send_to {
    my ($operation, @in) = @_;
    my @data;
    while (my ($name, $value) = splice @in, 0, 2) {
        # Literal: an empty type means no xsi:type, and that the library does not escape either.
        push @data, SOAP::Data->name("d:$name")->type('')->value(SOAP::Utils::encode_data($value));
    }
    return $depot->call($operation, @data);
}

sub located {
    my $out = send_to('Locate', @_);
    my ($shelf, $note) = map { $out->valueof("//LocateResponse/$_") } qw(shelf note);
    return (shelf => defined $shelf && length $shelf ? $shelf + 0 : undef, defined $note ? (note => $note) : ());
}

sub label { return send_to('Label', text => $_[0])->valueof('//LabelResponse/text') }

# text_of gives all text of a fault's detail, which arrives as nested hashes.
sub text_of {
    my ($value) = @_;
    return join '', map { text_of($_) } values %$value if ref $value eq 'HASH';
    return $value // '';
}

my %operations = (
    quote => sub { (cents => send_to('Quote', grams => 6, zone => 7)->valueof('//QuoteResponse/cents') + 0) },
    label => sub { (text => label($TEXT)) },
    bulk  => sub {
        my $text = $TEXT x 40000;
        my $got  = label($text);
        my $same = $got eq $text ? JSON::PP::true : JSON::PP::false;
        utf8::encode($got);
        return (octets => length $got, same => $same);
    },
    locate       => sub { located(parcel => 'P-1', hint => 'top') },
    'locate-nil' => sub { located(parcel => 'P-2') },
    refuse       => sub { send_to('Refuse', parcel => $TEXT); return (refused => undef) },
);

my $json = JSON::PP->new->utf8->canonical;
$| = 1;
for my $name (@names) {
    my %line = eval { $operations{$name}->() };
    if (my $fault = $@) {
        die $fault unless ref $fault && $fault->fault;
        my $code = $version eq '12' ? $fault->valueof('//Fault/Code/Value') : $fault->faultcode;
        %line = (
            exception => ref $fault,
            code      => $code =~ s/^.*://r,
            message   => $version eq '12' ? $fault->valueof('//Fault/Reason/Text') : $fault->faultstring,
            detail    => text_of($version eq '12' ? $fault->valueof('//Fault/Detail') : $fault->faultdetail),
        );
    }
    print $json->encode({ op => $name, %line }), "\n";
}
