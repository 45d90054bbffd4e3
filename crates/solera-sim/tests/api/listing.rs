//! The listing of a crate's public interface, a line for every public item: `of` a crate, `of_text`
//! for tests.
//!
//! Modules are read from their files as the compiler finds them. Methods and traits of a type are
//! found by the type's name, wherever in the crate they are written.
//!
//! What must hold: an item counts if its module is documented, or if a `pub use` of a documented
//! module names it. Each item stands on one line, however it is broken.
//!
//! Caller: `tests/api/main.rs`.

use quote::ToTokens;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};
use syn::{Attribute, Fields, ImplItem, Item, Meta, UseTree, Visibility};

/// The listing of the crate in `src`, which programs call `name`.
pub fn of(src: &Path, name: &str) -> String {
    let mut crate_ = Crate::default();
    crate_.file(&src.join("lib.rs"), src, name, true);
    crate_.listing()
}

/// The listing of a crate of one file.
pub fn of_text(text: &str, name: &str) -> String {
    let mut crate_ = Crate::default();
    crate_.items(syn::parse_file(text).unwrap().items, Path::new(""), name, true);
    crate_.listing()
}

/// A public item or a method.
struct Listed {
    line: String,
    /// Whether the documentation shows the module that it is in.
    is_shown: bool,
}

#[derive(Default)]
struct Crate {
    /// By path.
    items: BTreeMap<String, Vec<Listed>>,
    /// What is re-exported: the module, and the path as written.
    uses: Vec<(String, String, String)>,
    /// By the type's name: methods, and traits that it has.
    of_types: BTreeMap<String, Vec<String>>,
}

impl Crate {
    fn file(&mut self, file: &Path, directory: &Path, path: &str, is_shown: bool) {
        let text =
            std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        self.items(parsed.items, directory, path, is_shown);
    }

    fn items(&mut self, items: Vec<Item>, directory: &Path, path: &str, is_shown: bool) {
        for item in items {
            self.item(item, directory, path, is_shown);
        }
    }

    fn item(&mut self, mut item: Item, directory: &Path, path: &str, is_shown: bool) {
        let Some(attributes) = attributes(&mut item) else { return };
        if is_of_tests(attributes) {
            return;
        }
        let is_hidden = is_hidden(attributes);
        attributes.clear();
        let mut list = |name: &dyn ToString, line: String| {
            let listed = Listed { line, is_shown: is_shown && !is_hidden };
            self.items.entry(format!("{path}::{}", name.to_string())).or_default().push(listed);
        };
        match item {
            Item::Mod(module) => {
                let inner = format!("{path}::{}", module.ident);
                let is_shown = is_shown && !is_hidden && is_public(&module.vis);
                let name = module.ident.to_string();
                match module.content {
                    Some((_, items)) => self.items(items, &directory.join(&name), &inner, is_shown),
                    None => {
                        let file = module_file(directory, &name);
                        self.file(&file, &directory.join(&name), &inner, is_shown);
                    }
                }
            }
            Item::Use(use_) if is_public(&use_.vis) && is_shown && !is_hidden => {
                self.uses_of(use_.tree, String::new(), path);
            }
            Item::Impl(impl_) => self.of_impl(impl_),
            Item::Fn(function) if is_public(&function.vis) => {
                list(&function.sig.ident, format!("pub {}", tokens(&function.sig)));
            }
            Item::Struct(mut struct_) if is_public(&struct_.vis) => {
                let name = struct_.ident.clone();
                let has_private = public_fields(&mut struct_.fields);
                let mut line = tokens(&struct_);
                if has_private {
                    line = match line.rfind('}') {
                        Some(at) => format!("{}.. }}", &line[..at]),
                        None => line.replace(" ;", " (..) ;"),
                    };
                }
                list(&name, line);
            }
            Item::Enum(mut enum_) if is_public(&enum_.vis) => {
                enum_.variants.iter_mut().for_each(|variant| {
                    variant.attrs.clear();
                    variant.fields.iter_mut().for_each(|field| field.attrs.clear());
                });
                list(&enum_.ident.clone(), tokens(&enum_));
            }
            Item::Trait(mut trait_) if is_public(&trait_.vis) => {
                for item in &mut trait_.items {
                    match item {
                        syn::TraitItem::Fn(function) => {
                            function.attrs.clear();
                            // Whether there is a default matters, what it does not.
                            if let Some(body) = &mut function.default {
                                body.stmts.clear();
                            }
                        }
                        syn::TraitItem::Const(constant) => constant.attrs.clear(),
                        syn::TraitItem::Type(type_) => type_.attrs.clear(),
                        _ => {}
                    }
                }
                list(&trait_.ident.clone(), tokens(&trait_));
            }
            Item::Const(constant) if is_public(&constant.vis) => {
                list(&constant.ident.clone(), tokens(&constant).trim_end_matches(" ;").to_owned());
            }
            Item::Static(static_) if is_public(&static_.vis) => {
                list(&static_.ident.clone(), tokens(&static_))
            }
            Item::Type(type_) if is_public(&type_.vis) => list(&type_.ident.clone(), tokens(&type_)),
            Item::Union(union_) if is_public(&union_.vis) => list(&union_.ident.clone(), tokens(&union_)),
            // What a macro makes stands in its call; one that is defined here is its text.
            Item::Macro(macro_) if macro_.ident.is_none() => {
                let name = tokens(&macro_.mac.path);
                list(&format!("{name}!"), tokens(&macro_));
            }
            _ => {}
        }
    }

    fn of_impl(&mut self, impl_: syn::ItemImpl) {
        let Some(name) = type_name(&impl_.self_ty) else { return };
        let lines = self.of_types.entry(name).or_default();
        if impl_.trait_.is_some() {
            let head = syn::ItemImpl { items: Vec::new(), attrs: Vec::new(), ..impl_ };
            lines.push(tokens(&head).trim_end_matches(" { }").to_owned());
            return;
        }
        let generics = tokens(&impl_.generics);
        for item in impl_.items {
            match item {
                ImplItem::Fn(function) if is_public(&function.vis) && !is_hidden(&function.attrs) => {
                    let owner = if generics.is_empty() { String::new() } else { format!("{generics} ") };
                    lines.push(format!("{owner}pub {}", tokens(&function.sig)));
                }
                ImplItem::Const(mut constant) if is_public(&constant.vis) && !is_hidden(&constant.attrs) => {
                    constant.attrs.clear();
                    lines.push(tokens(&constant));
                }
                _ => {}
            }
        }
    }

    fn uses_of(&mut self, tree: UseTree, before: String, module: &str) {
        match tree {
            UseTree::Path(path) => self.uses_of(*path.tree, format!("{before}{}::", path.ident), module),
            UseTree::Group(group) => {
                group.items.into_iter().for_each(|tree| self.uses_of(tree, before.clone(), module));
            }
            UseTree::Name(name) => {
                self.uses.push((module.into(), name.ident.to_string(), format!("{before}{}", name.ident)));
            }
            UseTree::Rename(name) => {
                self.uses.push((module.into(), name.rename.to_string(), format!("{before}{}", name.ident)));
            }
            UseTree::Glob(_) => self.uses.push((module.into(), "*".into(), format!("{before}*"))),
        }
    }

    fn listing(self) -> String {
        let mut lines = BTreeSet::new();
        let mut types = BTreeSet::new();
        let mut add = |path: &str, listed: &Listed, lines: &mut BTreeSet<String>| {
            lines.insert(format!("{path}: {}", listed.line));
            types.insert(path.to_owned());
        };
        for (path, listed) in &self.items {
            listed.iter().filter(|listed| listed.is_shown).for_each(|listed| add(path, listed, &mut lines));
        }
        for (module, name, used) in &self.uses {
            lines.insert(format!("{module}::{name}: pub use {used}"));
            // The item may be re-exported on its way; its own name is the last.
            let own = format!("::{}", used.rsplit("::").next().unwrap_or(used));
            for (path, listed) in self.items.iter().filter(|(path, _)| path.ends_with(&own)) {
                listed.iter().for_each(|listed| add(path, listed, &mut lines));
            }
        }
        for path in types {
            let name = path.rsplit("::").next().unwrap_or_default();
            for line in self.of_types.get(name).into_iter().flatten() {
                lines.insert(format!("{path}: {line}"));
            }
        }
        lines.into_iter().map(|line| line + "\n").collect()
    }
}

/// The file of a module that a file in `directory` declares.
fn module_file(directory: &Path, name: &str) -> PathBuf {
    let file = directory.join(format!("{name}.rs"));
    if file.is_file() { file } else { directory.join(name).join("mod.rs") }
}

/// Takes fields that are not public away; whether there were any.
fn public_fields(fields: &mut Fields) -> bool {
    let before = fields.len();
    match fields {
        Fields::Named(named) => {
            let kept = std::mem::take(&mut named.named).into_iter().filter(|field| is_public(&field.vis));
            named.named = kept.collect();
        }
        Fields::Unnamed(unnamed) if unnamed.unnamed.iter().any(|field| !is_public(&field.vis)) => {
            *fields = Fields::Unit;
        }
        Fields::Unnamed(_) | Fields::Unit => {}
    }
    fields.iter_mut().for_each(|field| field.attrs.clear());
    fields.len() < before
}

fn attributes(item: &mut Item) -> Option<&mut Vec<Attribute>> {
    Some(match item {
        Item::Const(item) => &mut item.attrs,
        Item::Enum(item) => &mut item.attrs,
        Item::Fn(item) => &mut item.attrs,
        Item::Impl(item) => &mut item.attrs,
        Item::Macro(item) => &mut item.attrs,
        Item::Mod(item) => &mut item.attrs,
        Item::Static(item) => &mut item.attrs,
        Item::Struct(item) => &mut item.attrs,
        Item::Trait(item) => &mut item.attrs,
        Item::Type(item) => &mut item.attrs,
        Item::Union(item) => &mut item.attrs,
        Item::Use(item) => &mut item.attrs,
        _ => return None,
    })
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn is_hidden(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| tokens(&attribute.meta) == "doc (hidden)")
}

fn is_of_tests(attributes: &[Attribute]) -> bool {
    let is_test = |attribute: &Attribute| match &attribute.meta {
        Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string() == "test",
        _ => false,
    };
    attributes.iter().any(is_test)
}

fn type_name(type_: &syn::Type) -> Option<String> {
    match type_ {
        syn::Type::Path(path) => Some(path.path.segments.last()?.ident.to_string()),
        syn::Type::Reference(reference) => type_name(&reference.elem),
        _ => None,
    }
}

/// What is written, on one line, however it is broken and documented.
fn tokens(written: &impl ToTokens) -> String {
    const DOC: (&str, &str) = ("# [doc = \"", "\"] ");
    let text = written.to_token_stream().to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    let mut out = text.replace(" , }", " }").replace(", }", " }").replace(" ,)", ")").replace(",)", ")");
    while let Some(begin) = out.find(DOC.0)
        && let Some(len) = out[begin..].find(DOC.1)
    {
        out.replace_range(begin..begin + len + DOC.1.len(), "");
    }
    out
}
