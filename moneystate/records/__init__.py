"""Records and their bytes: the shapes of record classes (`shapes`), their Avro schemas (`schema`), and their codecs in
Avro and JSON (`codec`, `transcoder`). It knows no service. Standard library only.
"""
