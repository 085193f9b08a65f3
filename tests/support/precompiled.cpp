// Nothing of its own: the file for which the tests' header is precompiled. main.cpp needs it as
// text.
