//! How the runtime calls a function of the user, whose parameters only this ABI knows: one function for each type of callback, which takes the
//! user's function and the runtime's values. A type that the runtime does not call yet has none.
