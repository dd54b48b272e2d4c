"""One file a subject: functions of an open database that read or change its tables.

Whatever changes something runs inside a transaction that its caller opened, and the statements
keep to what SQLite and PostgreSQL both understand as far as they can.
"""
