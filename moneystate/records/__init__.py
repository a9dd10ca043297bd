"""Records and their bytes: the shapes of record classes (`shapes`), their Avro schemas (`schema`), and their codecs in
Avro and JSON (`codec`, `transcoder`). Then schemas of any origin as types (`avro_types`), the rules of resolution
(`resolution`), and the check and the rewriting of bodies (`avro_bodies`, `rewriting`, `schema_set`). It knows no
service. Standard library only.
"""
