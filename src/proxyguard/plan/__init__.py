"""Before anything is drawn: what an audit needs, and what it will probably say."""
