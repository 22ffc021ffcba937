//! Both sides in one process, or in a child.
