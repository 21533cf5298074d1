"""The sections of the HTML report, one file each: a document in, a fragment of the page out."""
